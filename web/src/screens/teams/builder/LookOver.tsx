import { ArrowLeft, Plus } from "lucide-react";

import { Button } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Checkbox } from "@/ui/Field";

import { joinCommand } from "../commandLine";
import { type TeamDraft, teamCreate } from "../draft";
import { OrgChart } from "../OrgChart";
import { PROVIDERS, RUNTIMES } from "../words";

interface Props {
  draft: TeamDraft;
  change: (part: Partial<TeamDraft>) => void;
  busy: boolean;
  onBack: () => void;
  onCreate: () => void;
}

/** The third step: what will be made, and the button that makes it. */
export function LookOver({ draft, change, busy, onBack, onCreate }: Props) {
  const body = teamCreate(draft);
  const facts: [string, string | undefined][] = [
    ["Name", body.name],
    ["Description", body.description],
    ["Provider", PROVIDERS[draft.provider].name],
    ["Runtime", body.runtime ? RUNTIMES[body.runtime] : undefined],
    ["Command", body.command ? joinCommand(body.command) : undefined],
    ["Model", body.model === "auto" ? "Auto: the first of your models" : body.model],
  ];
  const silent = [draft.leader, ...draft.workers].filter((agent) => agent.instructions.trim() === "");
  return (
    <div className="grid gap-5">
      <Section title={body.name || "Unnamed team"} actions={<CopyCurl method="POST" path="/api/teams" body={body} />}>
        <dl className="grid gap-x-6 gap-y-2 text-sm sm:grid-cols-[8rem_1fr]">
          {facts.map(
            ([name, value]) =>
              value && (
                <div key={name} className="contents">
                  <dt className="text-faint">{name}</dt>
                  <dd className="min-w-0 break-words max-sm:mb-1">{value}</dd>
                </div>
              ),
          )}
        </dl>
      </Section>
      <Section title="Who is in it">
        <OrgChart leader={draft.leader} workers={draft.workers} />
        {silent.length > 0 && (
          <p className="mt-3 text-xs text-soft">Without instructions: {silent.map((agent) => agent.name).join(", ")}. You can add them later.</p>
        )}
      </Section>
      <div className="flex flex-wrap items-center justify-between gap-4">
        <Button icon={<ArrowLeft size={15} aria-hidden />} onClick={onBack}>
          The team
        </Button>
        <div className="flex flex-wrap items-center gap-5">
          <Checkbox label="Deploy at once" hint={draft.deploy ? "It can answer right away." : "It takes messages; they wait."} checked={draft.deploy} onChange={(event) => change({ deploy: event.target.checked })} />
          <Button look="primary" icon={<Plus size={15} aria-hidden />} busy={busy} onClick={onCreate}>
            Create the team
          </Button>
        </div>
      </div>
    </div>
  );
}
