import { ArrowDown, ArrowUp, X } from "lucide-react";
import { useState } from "react";

import { $api, api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { Button, IconButton } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Checkbox, SelectField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { tell } from "@/ui/toasts";

import { Ask, Loaded } from "./parts";
import { refresh, useTask } from "./task";

type Failure = NonNullable<Schemas["ChainPut"]["fall_back_on"]>[number];
type Chain = { targets: string[]; fall_back_on: string[]; updated_at: string | null };

const FAILURES: Record<Failure, { name: string; note: string }> = {
  overload: { name: "It is overloaded or broken", note: "Server errors, refused or cut connections, nonsense." },
  rate_limit: { name: "It limits the rate", note: "Without this, calls wait their turn." },
  timeout: { name: "It stays silent", note: "Nothing came for too long." },
  auth: { name: "It refuses the key", note: "The key is wrong or revoked, or there is no credit." },
  context_length: { name: "The prompt is too long for it", note: "The next may have a larger context." },
};
const STANDARD: Failure[] = ["overload", "rate_limit", "timeout"];

/** Which models are tried one after the other when a call fails. */
export function FallbackChain() {
  const chain = $api.useQuery("get", "/api/models/fallback-chain");
  return (
    <Section
      title="Fallback chain"
      note="When a call fails, it goes to the next model in this order. The first one is also what auto means."
      actions={<CopyCurl method="GET" path="/api/models/fallback-chain" />}
    >
      <Loaded query={chain} rows={2}>
        {(found) => <Editor key={found.updated_at ?? "none"} chain={found} />}
      </Loaded>
    </Section>
  );
}

function Editor({ chain }: { chain: Chain }) {
  const may = useMay("models:write");
  const task = useTask();
  const [targets, setTargets] = useState(chain.targets);
  const [failures, setFailures] = useState(chain.targets.length ? chain.fall_back_on : STANDARD);
  const [removing, setRemoving] = useState(false);
  const isSaved = String(targets) === String(chain.targets) && String([...failures].sort()) === String([...(chain.targets.length ? chain.fall_back_on : STANDARD)].sort());
  const save = () =>
    task.run(async () => {
      await api.PUT("/api/models/fallback-chain", { body: { targets, fall_back_on: failures as Failure[] } });
      await refresh("/api/models");
      tell("The fallback chain is saved.");
    });
  if (!may && targets.length === 0) return <p className="text-sm text-soft">None. A call that fails is not made elsewhere.</p>;
  return (
    <div className="grid gap-5">
      <Targets targets={targets} onChange={may ? setTargets : undefined} />
      {may && <AddTarget taken={targets} onAdd={(target) => setTargets([...targets, target])} />}
      {targets.length > 0 && <Conditions failures={failures} onChange={may ? setFailures : undefined} />}
      {task.error ? <Problem error={task.error} /> : null}
      {may && (targets.length > 0 || chain.targets.length > 0) && (
        <div className="flex flex-wrap gap-2">
          <Button look="primary" busy={task.busy} disabled={isSaved || targets.length === 0} onClick={() => void save()}>
            Save the chain
          </Button>
          {chain.targets.length > 0 && <Button onClick={() => setRemoving(true)}>Remove the chain</Button>}
        </div>
      )}
      {removing && (
        <Ask
          title="Remove the fallback chain?"
          action="Remove"
          onClose={() => setRemoving(false)}
          onConfirm={async () => {
            await api.DELETE("/api/models/fallback-chain");
            await refresh("/api/models");
          }}
        >
          <p>Calls that fail are not made elsewhere any more, and auto means the built-in model. Providers stay connected.</p>
        </Ask>
      )}
    </div>
  );
}

function Targets({ targets, onChange }: { targets: string[]; onChange: ((targets: string[]) => void) | undefined }) {
  const [said, setSaid] = useState("");
  const move = (from: number, to: number) => {
    const next = [...targets];
    next.splice(to, 0, ...next.splice(from, 1));
    onChange?.(next);
    setSaid(`${targets[from]} is now number ${to + 1} of ${targets.length}`);
  };
  if (targets.length === 0) return <p className="text-sm text-soft">There is no chain: a call that fails is not made elsewhere. Add the model to try first.</p>;
  return (
    <>
      <ol className="grid gap-2">
        {targets.map((target, index) => (
          <li key={target} className="flex items-center gap-3 rounded-md border border-line bg-sunken py-1.5 pr-1.5 pl-3">
            <span className="text-xs text-faint tabular">{index + 1}</span>
            <span className="min-w-0 flex-1 text-sm font-medium break-all">{target}</span>
            {onChange && (
              <span className="flex">
                <IconButton size="small" label={`Move ${target} up`} disabled={index === 0} onClick={() => move(index, index - 1)}>
                  <ArrowUp size={14} />
                </IconButton>
                <IconButton size="small" label={`Move ${target} down`} disabled={index === targets.length - 1} onClick={() => move(index, index + 1)}>
                  <ArrowDown size={14} />
                </IconButton>
                <IconButton size="small" label={`Take ${target} out`} onClick={() => onChange(targets.filter((each) => each !== target))}>
                  <X size={14} />
                </IconButton>
              </span>
            )}
          </li>
        ))}
      </ol>
      <p aria-live="polite" className="sr-only">
        {said}
      </p>
    </>
  );
}

function AddTarget({ taken, onAdd }: { taken: string[]; onAdd: (target: string) => void }) {
  const models = $api.useQuery("get", "/api/models");
  const free = models.data?.items.filter((model) => !taken.includes(model.id)) ?? [];
  const away = models.data?.unavailable.map((each) => each.provider) ?? [];
  return (
    <SelectField
      label="Add a model"
      className="max-w-md"
      value=""
      disabled={free.length === 0}
      hint={away.length > 0 ? `Models of ${away.join(", ")} are missing here: they cannot be asked now.` : undefined}
      onChange={(event) => event.target.value && onAdd(event.target.value)}
    >
      <option value="">{models.isPending ? "Loading…" : free.length ? "Choose a model…" : "All models are in the chain"}</option>
      {free.map((model) => (
        <option key={model.id} value={model.id}>
          {model.id}
        </option>
      ))}
    </SelectField>
  );
}

function Conditions({ failures, onChange }: { failures: string[]; onChange: ((failures: string[]) => void) | undefined }) {
  return (
    <fieldset className="grid gap-3 sm:grid-cols-2">
      <legend className="pb-2 text-sm font-medium">Go on to the next when</legend>
      {(Object.keys(FAILURES) as Failure[]).map((failure) => (
        <Checkbox
          key={failure}
          label={<span className="font-normal">{FAILURES[failure].name}</span>}
          hint={FAILURES[failure].note}
          checked={failures.includes(failure)}
          disabled={!onChange}
          onChange={(event) => onChange?.(event.target.checked ? [...failures, failure] : failures.filter((each) => each !== failure))}
        />
      ))}
    </fieldset>
  );
}
