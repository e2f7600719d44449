import { useState } from "react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { formatCount, formatMoney } from "@/lib/format";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/Field";
import { Cell, Table } from "@/ui/Table";

import { Loaded } from "./parts";
import { PriceForm } from "./PriceForm";

type Model = Schemas["ModelRead"];

const SOURCES: Record<string, string> = { catalogue: "catalogue", own: "your own", free: "free" };
const MANY = 12;

/** The models of a provider with what a million tokens cost. */
export function ProviderModels({ provider }: { provider: Schemas["ProviderRead"] }) {
  const models = $api.useQuery("get", "/api/models/providers/{provider_id}/models", { params: { path: { provider_id: provider.id } } });
  const [words, setWords] = useState("");
  const [pricing, setPricing] = useState<Model>();
  const may = useMay("models:write");
  return (
    <Loaded query={models}>
      {(found) => {
        const shown = found.items.filter((model) => model.model.toLowerCase().includes(words.trim().toLowerCase()));
        const trouble = found.unavailable[0];
        if (trouble) {
          return (
            <p className="rounded-md bg-bad-soft p-3 text-sm">
              Its models cannot be listed. {trouble.message} {trouble.advice}
            </p>
          );
        }
        if (found.items.length === 0) return <p className="text-sm text-soft">It offers no model.</p>;
        return (
          <div className="grid gap-2">
            {found.items.length > MANY && (
              <TextField hideLabel label="Find a model" type="search" placeholder={`Find among ${found.items.length} models`} value={words} onChange={(event) => setWords(event.target.value)} />
            )}
            <Table label={`Models of ${provider.name}`} head={["Model", ...["Context", "In, per million", "Out, per million", "Price from"].map(right)]}>
              {shown.slice(0, 100).map((model) => (
                <tr key={model.id}>
                  <Cell className="break-all">{model.model}</Cell>
                  <Cell numeric>{model.context_window === null ? "unknown" : formatCount(model.context_window)}</Cell>
                  <Cell numeric>{formatMoney(model.input_price)}</Cell>
                  <Cell numeric>{formatMoney(model.output_price)}</Cell>
                  <Cell numeric className="whitespace-nowrap">
                    {model.price_source ? (
                      SOURCES[model.price_source]
                    ) : may ? (
                      <Button size="small" onClick={() => setPricing(model)} aria-label={`Set the price of ${model.model}`}>
                        Set
                      </Button>
                    ) : (
                      "nobody"
                    )}
                  </Cell>
                </tr>
              ))}
            </Table>
            {shown.length > 100 && <p className="text-xs text-soft">{shown.length - 100} more: find them by name.</p>}
            {pricing && <PriceForm provider={pricing.provider} model={pricing.model} onClose={() => setPricing(undefined)} />}
          </div>
        );
      }}
    </Loaded>
  );
}

function right(name: string) {
  return (
    <span key={name} className="block text-right">
      {name}
    </span>
  );
}
