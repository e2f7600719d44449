import { useState } from "react";

import { api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { Checkbox, SelectField, TextField } from "@/ui/Field";

import { type Kind, KINDS } from "./kinds";
import { FormDialog, textOf } from "./parts";
import { refresh } from "./task";

/** Connects a provider with its key, which goes to the vault. */
export function ConnectProvider({ onConnected, onClose }: { onConnected: (id: string) => void; onClose: () => void }) {
  const [kind, setKind] = useState<Kind>("anthropic");
  const info = KINDS[kind];
  const send = async (fields: FormData) => {
    const answer = await api.POST("/api/models/providers", {
      body: {
        kind,
        name: textOf(fields, "name") || null,
        key: textOf(fields, "key") || null,
        base_url: textOf(fields, "base_url") || null,
        requests_per_minute: Number(textOf(fields, "pace")) || null,
      },
    });
    await refresh("/api/models", "/api/vault", "/api/plan");
    onConnected(answer.data!.id);
  };
  return (
    <FormDialog title="Connect a provider" action="Connect and test" onSend={send} onClose={onClose}>
      <SelectField label="Provider" value={kind} autoFocus onChange={(event) => setKind(event.target.value as Kind)}>
        {(Object.keys(KINDS) as Kind[]).map((each) => (
          <option key={each} value={each}>
            {KINDS[each].name}
          </option>
        ))}
      </SelectField>
      <TextField
        label={info.keyOptional ? "API key, if it wants one" : "API key"}
        name="key"
        type="password"
        autoComplete="off"
        required={!info.keyOptional}
        hint="Goes to the vault. It can be replaced, never read back."
      />
      <TextField
        label={info.needsAddress ? "Address" : "Address, if not the usual one"}
        name="base_url"
        type="url"
        maxLength={500}
        required={info.needsAddress}
        placeholder={kind === "ollama" ? "http://127.0.0.1:11434/v1" : "https://models.example.com/v1"}
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField
          label="Name"
          name="name"
          maxLength={40}
          pattern="[a-z0-9]([a-z0-9\-]{0,38}[a-z0-9])?"
          title="Lower-case letters, digits and hyphens"
          placeholder={kind}
          hint="Models are called name/model."
        />
        <Pace />
      </div>
    </FormDialog>
  );
}

function Pace({ value }: { value?: number | null }) {
  return (
    <TextField
      label="Calls each minute"
      name="pace"
      type="number"
      min={1}
      max={1_000_000}
      placeholder="No limit"
      hint="At most so many; more wait."
      {...(value ? { defaultValue: value } : {})}
    />
  );
}

/** Changes a provider: another key, another address, another pace. */
export function EditProvider({ provider, onClose }: { provider: Schemas["ProviderRead"]; onClose: () => void }) {
  const [noKey, setNoKey] = useState(false);
  const mayHaveNone = provider.kind === "custom" || provider.kind === "ollama";
  const send = async (fields: FormData) => {
    const key = textOf(fields, "key");
    const address = textOf(fields, "base_url") || null;
    await api.PATCH("/api/models/providers/{provider_id}", {
      params: { path: { provider_id: provider.id } },
      body: {
        ...(noKey ? { key: null } : key ? { key } : {}),
        ...(address === provider.base_url ? {} : { base_url: address }),
        requests_per_minute: Number(textOf(fields, "pace")) || null,
      },
    });
    await refresh("/api/models", "/api/vault");
  };
  return (
    <FormDialog title={`Change ${provider.name}`} action="Save" onSend={send} onClose={onClose}>
      <TextField
        label="New API key"
        name="key"
        type="password"
        autoComplete="off"
        disabled={noKey}
        placeholder={provider.last_four ? `Keep the one that ends with ${provider.last_four}` : "Keep it as it is"}
        hint="Leave it empty to keep the present one."
      />
      {mayHaveNone && provider.last_four !== null && (
        <Checkbox label="Work without a key" hint="The stored one is deleted." checked={noKey} onChange={(event) => setNoKey(event.target.checked)} />
      )}
      <TextField
        label="Address"
        name="base_url"
        type="url"
        maxLength={500}
        required={provider.kind === "custom"}
        placeholder="The usual one"
        defaultValue={provider.base_url ?? ""}
      />
      <Pace value={provider.requests_per_minute} />
    </FormDialog>
  );
}
