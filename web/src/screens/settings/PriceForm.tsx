import { useState } from "react";

import { $api, api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { SelectField, TextField } from "@/ui/Field";

import { dollarsOf, microsOf } from "./money";
import { FormDialog, textOf } from "./parts";
import { refresh } from "./task";

interface Props {
  price?: Schemas["PriceRead"];
  provider?: string;
  model?: string;
  onClose: () => void;
}

const FIELDS = [
  { name: "input", label: "In", required: true },
  { name: "output", label: "Out", required: true },
  { name: "cache_read", label: "Read from a cache", required: false },
  { name: "cache_write", label: "Written to a cache", required: false },
] as const;

type Name = (typeof FIELDS)[number]["name"];

/** Sets what a million tokens of a model cost. */
export function PriceForm({ price, provider, model, onClose }: Props) {
  const providers = $api.useQuery("get", "/api/models/providers", { params: { query: { limit: 200 } } });
  const given = price ?? (provider !== undefined && model !== undefined ? { provider, model } : undefined);
  const [texts, setTexts] = useState<Record<Name, string>>({
    input: price ? dollarsOf(price.input) : "",
    output: price ? dollarsOf(price.output) : "",
    cache_read: price ? dollarsOf(price.cache_read) : "",
    cache_write: price ? dollarsOf(price.cache_write) : "",
  });
  const amount = (name: Name) => (texts[name] === "" ? null : microsOf(texts[name]));
  const wrong = FIELDS.some(({ name, required }) => amount(name) === undefined || (required && amount(name) === null));
  const send = async (fields: FormData) => {
    await api.PUT("/api/models/prices", {
      body: {
        provider: given?.provider ?? textOf(fields, "provider"),
        model: given?.model ?? textOf(fields, "model"),
        input: amount("input")!,
        output: amount("output")!,
        cache_read: amount("cache_read") ?? null,
        cache_write: amount("cache_write") ?? null,
      },
    });
    await refresh("/api/models");
  };
  return (
    <FormDialog title={given ? `The price of ${given.model}` : "Set a price"} action="Set" disabled={wrong} onSend={send} onClose={onClose}>
      {!given && (
        <div className="grid gap-4 sm:grid-cols-2">
          <SelectField label="Provider" name="provider" required>
            {[...(providers.data?.items.map((each) => each.name) ?? []), "demo"].map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </SelectField>
          <TextField label="Model" name="model" required maxLength={200} />
        </div>
      )}
      <p className="text-sm text-soft">US dollars for a million tokens. It wins over the catalogue and counts for calls from now on.</p>
      <div className="grid gap-4 sm:grid-cols-2">
        {FIELDS.map(({ name, label, required }) => (
          <TextField
            key={name}
            label={label}
            inputMode="decimal"
            required={required}
            placeholder={required ? "3.00" : "As in"}
            value={texts[name]}
            onChange={(event) => setTexts({ ...texts, [name]: event.target.value })}
            error={amount(name) === undefined ? "Give an amount such as 3 or 0.25." : undefined}
          />
        ))}
      </div>
    </FormDialog>
  );
}
