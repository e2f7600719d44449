import type { UseQueryResult } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";

import { $api, api } from "@/api/client";
import { queryClient } from "@/api/queries";
import { useMe } from "@/api/session";
import type { Schemas } from "@/api/types";
import { plural } from "@/lib/format";
import { Page } from "@/shell/Page";
import { Button } from "@/ui/Button";
import { Card } from "@/ui/Card";
import { TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";

import { welcomed } from "./firstSteps";
import { BUILT_IN, ModelChoice } from "./ModelChoice";
import { Option } from "./Option";

const route = getRouteApi("/inside/welcome");
const STEPS = ["name", "model", "team"] as const;
type Step = (typeof STEPS)[number];

const TITLES: Record<Step, { title: string; note: string }> = {
  name: { title: "Name your tenant", note: "A tenant is the place of your organisation: its teams, sessions, people and costs." },
  model: { title: "Choose a model", note: "It is what your agents think with. The built-in one is enough to look around." },
  team: { title: "Meet your first team", note: "A leader and its workers. Pick who fits; you can change everything later." },
};

/** The first steps in a new tenant, up to the first answer of a team. */
export function Welcome() {
  const search = route.useSearch();
  const step: Step = STEPS.find((each) => each === search.step) ?? "name";
  const navigate = useNavigate();
  const me = useMe();
  const tenant = $api.useQuery("get", "/api/tenants/{tenant_id}", { params: { path: { tenant_id: me.tenant_id } } });
  const [name, setName] = useState<string>();
  const [model, setModel] = useState(BUILT_IN);
  const templates = $api.useQuery("get", "/api/team-templates");
  const [chosen, setTemplate] = useState<string>();
  const template = chosen ?? templates.data?.[0]?.id;
  const [message, setMessage] = useState("Introduce yourselves: who are you, and what can you do for me?");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();

  const go = (to: Step) => void navigate({ to: "/welcome", search: { step: to } });
  const attempt = async (work: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    await work().catch(setError);
    setBusy(false);
  };
  const finish = async (newName?: string) => {
    const path = { tenant_id: me.tenant_id };
    const body = { settings: welcomed(tenant.data!), ...(newName ? { name: newName } : {}) };
    await api.PATCH("/api/tenants/{tenant_id}", { params: { path }, body });
    await queryClient.invalidateQueries();
  };
  const skip = () =>
    attempt(async () => {
      await finish();
      await navigate({ to: "/" });
    });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (step === "name") {
      const wanted = name?.trim();
      void attempt(async () => {
        if (wanted && wanted !== me.tenant_name) {
          await api.PATCH("/api/tenants/{tenant_id}", { params: { path: { tenant_id: me.tenant_id } }, body: { name: wanted } });
          await queryClient.invalidateQueries();
        }
        go("model");
      });
    } else if (step === "model") go("team");
    else if (template) void attempt(() => meet(template));
  };
  const meet = async (template_id: string) => {
    const made = await api.POST("/api/team-templates/{template_id}/create", {
      params: { path: { template_id } },
      body: { model, deploy: true },
    });
    const teamId = made.data!.id;
    if (message.trim()) {
      await api.POST("/api/teams/{team_id}/messages", { params: { path: { team_id: teamId } }, body: { text: message.trim() } });
    }
    await finish();
    await navigate({ to: "/chat/$teamId", params: { teamId } });
  };

  return (
    <Page title="Welcome" heading={TITLES[step].title} note={TITLES[step].note}>
      <Progress step={step} />
      <Card className="p-5 md:p-6">
        <form onSubmit={submit} className="grid gap-5">
          {step === "name" && (
            <TextField label="Tenant" required maxLength={100} autoFocus value={name ?? me.tenant_name} onChange={(event) => setName(event.target.value)} hint="For example the name of your company or project." />
          )}
          {step === "model" && <ModelChoice model={model} onChoose={setModel} />}
          {step === "team" && (
            <>
              <Templates query={templates} chosen={template} onChoose={setTemplate} />
              <TextField label="Your first message" value={message} onChange={(event) => setMessage(event.target.value)} hint="The team answers as soon as it is up; you can watch it write." />
            </>
          )}
          {error ? <Problem error={error} /> : null}
          <div className="flex flex-wrap items-center gap-2">
            <Button type="submit" look="primary" busy={busy} disabled={step === "team" && !template}>
              {step === "team" ? "Create the team and say hello" : "Continue"}
            </Button>
            {step !== "name" && <Button onClick={() => go(step === "team" ? "model" : "name")}>Back</Button>}
            <Button look="quiet" className="ml-auto" disabled={busy || !tenant.data} onClick={() => void skip()}>
              Skip, I will look around
            </Button>
          </div>
        </form>
      </Card>
    </Page>
  );
}

function Progress({ step }: { step: Step }) {
  const at = STEPS.indexOf(step);
  return (
    <ol aria-label="Steps" className="flex gap-2">
      {STEPS.map((each, index) => (
        <li key={each} aria-current={index === at ? "step" : undefined} className="flex-1">
          <span className={`block h-1.5 rounded-full ${index <= at ? "bg-accent" : "bg-hover"}`} />
          <span className="sr-only">
            Step {index + 1}: {TITLES[each].title}
          </span>
        </li>
      ))}
    </ol>
  );
}

interface TemplatesProps {
  query: UseQueryResult<Schemas["TemplateRead"][], unknown>;
  chosen: string | undefined;
  onChoose: (id: string) => void;
}

function Templates({ query, chosen, onChoose }: TemplatesProps) {
  if (query.isError) return <Problem error={query.error} retry={() => void query.refetch()} />;
  if (query.isPending) return <SkeletonRows rows={4} className="h-20" />;
  return (
    <fieldset>
      <legend className="mb-2 text-sm font-medium">Team</legend>
      <div className="grid gap-3 sm:grid-cols-2">
        {query.data.map((template) => (
          <Option
            key={template.id}
            name="template"
            title={template.name}
            note={`${template.description} ${plural(template.agents.length, "agent")}.`}
            checked={chosen === template.id}
            onChoose={() => onChoose(template.id)}
          />
        ))}
      </div>
    </fieldset>
  );
}
