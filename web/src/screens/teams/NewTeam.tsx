import { getRouteApi } from "@tanstack/react-router";
import { Lock } from "lucide-react";
import { useEffect, useState } from "react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import { Page } from "@/shell/Page";
import { LinkButton } from "@/ui/Button";
import { Confirm } from "@/ui/Dialog";
import { Empty } from "@/ui/Empty";
import { Problem } from "@/ui/Problem";

import { LookOver } from "./builder/LookOver";
import { Steps } from "./builder/Steps";
import { TeamForm } from "./builder/TeamForm";
import { BLANK, blankDraft, draftFaults, draftOf, type TeamDraft, teamCreate } from "./draft";
import { type Faults, faultsOf } from "./faults";
import { TemplateCards } from "./TemplateCards";
import { keepTeam } from "./teamQueries";

const route = getRouteApi("/inside/teams/new");
const CRUMBS = [{ name: "Teams", link: { to: "/teams" as const } }];
const KEPT = "agentos.team-draft";

/** Makes a team in three steps: a template, the team, a last look. */
export function NewTeam() {
  const may = useMay("teams:write");
  if (may) return <Builder />;
  return (
    <Page title="New team" crumbs={CRUMBS}>
      <Empty icon={Lock} title="You may not make teams" action={<LinkButton to="/teams">See the teams there are</LinkButton>}>
        Ask an owner or an admin for a role that may.
      </Empty>
    </Page>
  );
}

function Builder() {
  const { step: asked, template } = route.useSearch();
  const navigate = route.useNavigate();
  const [draft, setDraft] = useDraft(template);
  const [faults, setFaults] = useState<Faults>({});
  const [instead, setInstead] = useState<string>();
  const create = $api.useMutation("post", "/api/teams");
  const step = draft === undefined ? 1 : Math.min(Math.max(asked ?? (template ? 2 : 1), 1), 3);
  const go = (next: number, chosen = draft?.template) => void navigate({ search: { step: next, template: chosen } });

  const choose = (id: string) => {
    if (draft?.touched && draft.template !== id) setInstead(id);
    else go(2, id);
  };
  const change = (part: Partial<TeamDraft>) => {
    setDraft((old) => old && { ...old, ...part, touched: true });
    setFaults({});
    create.reset();
  };
  const lookOver = () => {
    const found = draft ? draftFaults(draft) : {};
    setFaults(found);
    if (Object.keys(found).length === 0) go(3);
    else focusFirstFault();
  };
  const save = () => {
    if (draft === undefined) return;
    const found = draftFaults(draft);
    if (Object.keys(found).length > 0) {
      setFaults(found);
      go(2);
      return focusFirstFault();
    }
    create.mutate(
      { body: teamCreate(draft) },
      {
        onSuccess: (team) => {
          keepTeam(team);
          sessionStorage.removeItem(KEPT);
          void navigate({ to: "/teams/$teamId", params: { teamId: team.id } });
        },
        onError: (error) => {
          const named = faultsOf(error, [draft.leader, ...draft.workers].map((agent) => agent.name));
          setFaults(named);
          if (Object.keys(named).length === 0) return;
          go(2);
          focusFirstFault();
        },
      },
    );
  };
  return (
    <Page title="New team" crumbs={CRUMBS}>
      <Steps step={step} ready={draft !== undefined} template={draft?.template} />
      {create.error && Object.keys(faults).length === 0 ? <Problem error={create.error} /> : null}
      {step === 1 && <TemplateCards blank choose={choose} chosen={draft?.template} />}
      {step === 2 && draft && <TeamForm draft={draft} faults={faults} change={change} onBack={() => go(1)} onNext={lookOver} />}
      {step === 3 && draft && <LookOver draft={draft} change={change} busy={create.isPending} onBack={() => go(2)} onCreate={save} />}
      {instead && (
        <Confirm
          title="Begin with another template?"
          action="Use the other template"
          onClose={() => setInstead(undefined)}
          onConfirm={() => {
            setInstead(undefined);
            setDraft(undefined);
            go(2, instead);
          }}
        >
          <p>What you have typed for this team is replaced by the template. Nothing was saved yet.</p>
        </Confirm>
      )}
    </Page>
  );
}

/** The draft of this tab: begun by the template in the address, kept over reloads. */
function useDraft(template: string | undefined) {
  const [draft, setDraft] = useState(readDraft);
  const templates = $api.useQuery("get", "/api/team-templates", {}, { staleTime: Infinity }).data;
  useEffect(() => {
    if (template === undefined || draft?.template === template) return;
    const found = templates?.find((each) => each.id === template);
    if (found) setDraft(draftOf(found));
    else if (template === BLANK) setDraft(blankDraft());
  }, [template, templates, draft]);
  useEffect(() => {
    if (draft) keepDraft(draft);
  }, [draft]);
  return [draft, setDraft] as const;
}

function readDraft(): TeamDraft | undefined {
  try {
    return (JSON.parse(sessionStorage.getItem(KEPT) ?? "null") as TeamDraft | null) ?? undefined;
  } catch {
    return undefined;
  }
}

function keepDraft(draft: TeamDraft): void {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(draft));
  } catch {
    // Storage is switched off or full: the draft then lasts until the page is left.
  }
}

/** Brings the first field that is wrong into sight, once it is shown as such. */
function focusFirstFault(): void {
  setTimeout(() => document.querySelector<HTMLElement>("main [aria-invalid=true], [aria-invalid=true]")?.focus(), 60);
}
