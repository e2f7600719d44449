import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";

import { $api, api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { Badge, type Tone } from "@/ui/Badge";
import { Button, IconButton } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { SelectField, TextField } from "@/ui/Field";
import { tellProblem } from "@/ui/toasts";

import { FormDialog, Line, Lines, Loaded, textOf } from "./parts";
import { type Decision, DECISIONS, otherPolicies, type Policy, standardOf, type Tier, TIERS } from "./policies";
import { refresh, useTask } from "./task";

const TONES: Record<Tier, Tone> = { safe: "good", dangerous: "warn", destructive: "bad" };
const LOOKS: Record<Decision, Tone> = { allow: "good", ask: "warn", deny: "bad" };

export default function Tools() {
  const tools = $api.useQuery("get", "/api/tools");
  const policies = $api.useQuery("get", "/api/tools/policies", { params: { query: { limit: 200 } } });
  const decided = policies.data?.items ?? [];
  return (
    <>
      <Section
        title="By tier"
        note="A tool's tier says what it can destroy. The most specific decision counts: the tool, then the longest pattern, then the tier."
        actions={<CopyCurl method="GET" path="/api/tools/policies" />}
      >
        <Loaded query={policies}>
          {() => (
            <Lines>
              {(Object.keys(TIERS) as Tier[]).map((tier) => (
                <Line
                  key={tier}
                  title={<Badge tone={TONES[tier]}>{TIERS[tier].name}</Badge>}
                  note={TIERS[tier].note}
                  actions={
                    <Decide
                      label={`${TIERS[tier].name} tools`}
                      subject={`tier:${tier}`}
                      policies={decided}
                      standard={`Standard: ${DECISIONS[TIERS[tier].standard].name.toLowerCase()}`}
                    />
                  }
                />
              ))}
            </Lines>
          )}
        </Loaded>
      </Section>
      <Section title="Built-in tools" actions={<CopyCurl method="GET" path="/api/tools" />}>
        <Loaded query={tools} rows={6}>
          {(found) => (
            <Lines>
              {found.items.map((tool) => (
                <ToolLine key={tool.name} tool={tool} policies={decided} />
              ))}
            </Lines>
          )}
        </Loaded>
      </Section>
      <Patterns policies={otherPolicies(tools.data?.items ?? [], decided)} />
    </>
  );
}

function ToolLine({ tool, policies }: { tool: Schemas["ToolRead"]; policies: Policy[] }) {
  const standard = standardOf(tool, policies);
  const by = standard.by === null ? "Standard" : standard.by.startsWith("tier:") ? "By its tier" : `By ${standard.by}`;
  return (
    <Line
      title={
        <>
          <code className="text-sm">{tool.name}</code>
          <Badge tone={TONES[tool.tier]}>{TIERS[tool.tier].name}</Badge>
          {!tool.default && <span className="text-xs font-normal text-faint">only if a session names it</span>}
        </>
      }
      note={<span className="line-clamp-2" title={tool.description}>{tool.description}</span>}
      actions={<Decide label={tool.name} subject={tool.name} policies={policies} standard={`${by}: ${DECISIONS[standard.decision].name.toLowerCase()}`} />}
    />
  );
}

interface DecideProps {
  label: string;
  subject: string;
  policies: Policy[];
  /** What counts without a decision, in words. */
  standard: string;
}

/** Allow, ask or deny, or leave it to what is less specific. */
function Decide({ label, subject, policies, standard }: DecideProps) {
  const may = useMay("tools:write");
  const task = useTask();
  const own = policies.find((policy) => policy.subject === subject);
  if (!may) return own ? <Badge tone={LOOKS[own.decision]}>{DECISIONS[own.decision].name}</Badge> : <span className="text-xs text-soft">{standard}</span>;
  const decide = (value: string) =>
    task.run(async () => {
      try {
        if (value !== "") await api.PUT("/api/tools/policies", { body: { subject, decision: value as Decision } });
        else if (own) await api.DELETE("/api/tools/policies/{policy_id}", { params: { path: { policy_id: own.id } } });
        await refresh("/api/tools");
      } catch (problem) {
        tellProblem(problem);
      }
    });
  return (
    <SelectField
      hideLabel
      className="w-48"
      label={`Decision about ${label}`}
      value={own?.decision ?? ""}
      disabled={task.busy}
      onChange={(event) => void decide(event.target.value)}
    >
      <option value="">{standard}</option>
      {(Object.keys(DECISIONS) as Decision[]).map((decision) => (
        <option key={decision} value={decision}>
          {DECISIONS[decision].name}
        </option>
      ))}
    </SelectField>
  );
}

/** Decisions about tools of MCP servers, by name or by the beginning of it. */
function Patterns({ policies }: { policies: Policy[] }) {
  const may = useMay("tools:write");
  const [adding, setAdding] = useState(false);
  const remove = (policy: Policy) =>
    api
      .DELETE("/api/tools/policies/{policy_id}", { params: { path: { policy_id: policy.id } } })
      .then(() => refresh("/api/tools"))
      .catch(tellProblem);
  return (
    <Section
      title="Other tools"
      note="Tools of MCP servers are called mcp__server__tool; a star at the end stands for any rest."
      actions={
        may && (
          <Button size="small" icon={<Plus size={14} />} onClick={() => setAdding(true)}>
            Decide about more
          </Button>
        )
      }
    >
      {policies.length === 0 ? (
        <p className="text-sm text-soft">Nothing decided: their tiers count.</p>
      ) : (
        <Lines>
          {policies.map((policy) => (
            <Line
              key={policy.id}
              title={<code className="text-sm break-all">{policy.subject}</code>}
              note={`Decided by ${policy.created_by}`}
              actions={
                <>
                  <Badge tone={LOOKS[policy.decision]} title={DECISIONS[policy.decision].note}>
                    {DECISIONS[policy.decision].name}
                  </Badge>
                  {may && (
                    <IconButton size="small" label={`Remove the decision about ${policy.subject}`} onClick={() => void remove(policy)}>
                      <Trash2 size={14} />
                    </IconButton>
                  )}
                </>
              }
            />
          ))}
        </Lines>
      )}
      {adding && <AddPattern onClose={() => setAdding(false)} />}
    </Section>
  );
}

function AddPattern({ onClose }: { onClose: () => void }) {
  const [decision, setDecision] = useState<Decision>("ask");
  const send = async (fields: FormData) => {
    await api.PUT("/api/tools/policies", { body: { subject: textOf(fields, "subject"), decision } });
    await refresh("/api/tools");
  };
  return (
    <FormDialog title="Decide about tools" action="Decide" onSend={send} onClose={onClose}>
      <TextField
        label="Tool, or the beginning of its name with a star"
        name="subject"
        required
        autoFocus
        placeholder="mcp__github__*"
        pattern="[A-Za-z0-9_\-]{1,100}\*?"
        title="Letters, digits, hyphens and underscores, with a star at the end if wanted"
      />
      <SelectField label="Decision" value={decision} hint={DECISIONS[decision].note} onChange={(event) => setDecision(event.target.value as Decision)}>
        {(Object.keys(DECISIONS) as Decision[]).map((each) => (
          <option key={each} value={each}>
            {DECISIONS[each].name}
          </option>
        ))}
      </SelectField>
    </FormDialog>
  );
}
