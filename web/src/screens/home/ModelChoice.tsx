import { useState } from "react";

import { $api, api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { SelectField, TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import { Option } from "./Option";

type Kind = Schemas["ProviderCreate"]["kind"];

const KINDS: { kind: Kind; name: string }[] = [
  { kind: "anthropic", name: "Anthropic" },
  { kind: "openai", name: "OpenAI" },
  { kind: "google", name: "Google" },
  { kind: "mistral", name: "Mistral" },
  { kind: "groq", name: "Groq" },
  { kind: "openrouter", name: "OpenRouter" },
];

export const BUILT_IN = "demo";

interface Props {
  model: string;
  onChoose: (model: string) => void;
}

/** Which model answers: the built-in one, one on this machine, or one of a vendor with an own key. */
export function ModelChoice({ model, onChoose }: Props) {
  const detected = $api.useQuery("get", "/api/models/providers/detected");
  const ollama = detected.data?.items.find((each) => each.kind === "ollama");
  const [way, setWay] = useState<"built-in" | "ollama" | "key">("built-in");
  return (
    <fieldset className="grid gap-3">
      <legend className="sr-only">Model</legend>
      <Option
        name="model"
        title="Built-in"
        note="Works at once: no key, no network. It is a demonstration, not a clever model."
        checked={way === "built-in"}
        onChoose={() => {
          setWay("built-in");
          onChoose(BUILT_IN);
        }}
      />
      <Option
        name="model"
        title="Ollama on this machine"
        note={ollama ? `Found, with ${ollama.models.length || "no"} models.` : "Not found. Start Ollama and come back; it is looked for by itself."}
        checked={way === "ollama"}
        disabled={!ollama}
        onChoose={() => setWay("ollama")}
      />
      {way === "ollama" && ollama && <Connect kind="ollama" model={model} onChoose={onChoose} />}
      <Option
        name="model"
        title="Your own key"
        note="Anthropic, OpenAI, Google and others. The key goes to the vault and can never be read back."
        checked={way === "key"}
        onChoose={() => setWay("key")}
      />
      {way === "key" && <Connect model={model} onChoose={onChoose} />}
    </fieldset>
  );
}

function Connect({ kind: given, model, onChoose }: Props & { kind?: Kind }) {
  const [kind, setKind] = useState<Kind>(given ?? "anthropic");
  const [key, setKey] = useState("");
  const [providerId, setProviderId] = useState<string>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const connect = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const id = await connected(kind, given ? null : key);
      setKey("");
      setProviderId(id);
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  if (providerId !== undefined) return <Models providerId={providerId} model={model} onChoose={onChoose} />;
  return (
    <div className="ml-8 grid gap-3">
      {!given && (
        <div className="grid gap-3 sm:grid-cols-2">
          <SelectField label="Provider" value={kind} onChange={(event) => setKind(event.target.value as Kind)}>
            {KINDS.map((each) => (
              <option key={each.kind} value={each.kind}>
                {each.name}
              </option>
            ))}
          </SelectField>
          <TextField label="API key" type="password" autoComplete="off" value={key} onChange={(event) => setKey(event.target.value)} />
        </div>
      )}
      {error ? <Problem error={error} /> : null}
      <Button className="justify-self-start" busy={busy} disabled={!given && key === ""} onClick={() => void connect()}>
        Connect and test
      </Button>
    </div>
  );
}

/** Connects a provider, or takes the one of its name that is there, and makes sure that it works. */
async function connected(kind: Kind, key: string | null): Promise<string> {
  const known = await api.GET("/api/models/providers");
  const before = known.data?.items.find((each) => each.name === kind);
  let id = before?.id;
  if (id === undefined) {
    const made = await api.POST("/api/models/providers", { body: { kind, key } });
    id = made.data!.id;
  } else if (key !== null) {
    await api.PATCH("/api/models/providers/{provider_id}", { params: { path: { provider_id: id } }, body: { key } });
  }
  const test = await api.POST("/api/models/providers/{provider_id}/test", { params: { path: { provider_id: id } } });
  if (!test.data!.ok) throw new Error([test.data!.message, test.data!.advice].filter(Boolean).join(" "));
  return id;
}

function Models({ providerId, model, onChoose }: Props & { providerId: string }) {
  const models = $api.useQuery("get", "/api/models/providers/{provider_id}/models", { params: { path: { provider_id: providerId } } });
  return (
    <div className="ml-8">
      {models.isError && <Problem error={models.error} retry={() => void models.refetch()} />}
      <SelectField label="Model" hint="Connected. You can change the model of each agent later." value={model} onChange={(event) => onChoose(event.target.value)}>
        <option value={BUILT_IN}>Choose a model…</option>
        {models.data?.items.map((each) => (
          <option key={each.id} value={each.id}>
            {each.model}
          </option>
        ))}
      </SelectField>
    </div>
  );
}
