import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { ChevronDown, Play } from "lucide-react";
import { type FormEvent, useMemo, useState } from "react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { Page } from "@/shell/Page";
import { Button } from "@/ui/Button";
import { Card } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Checkbox, SelectField, TextArea, TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import { bodyOf, EMPTY_FORM, faultsOf, type Form } from "./form";
import { Gates } from "./Gates";

const route = getRouteApi("/inside/sessions/new");

const IDEAS = ["Write a haiku generator in Python and test it", "Explain what you can do, in five lines", "Write a program for Fibonacci numbers"];

/** Starts a session from a form; what most people never need is folded away. */
export function NewSession() {
  const { prompt } = route.useSearch();
  const navigate = useNavigate();
  const [form, setForm] = useState<Form>({ ...EMPTY_FORM, prompt: prompt ?? "" });
  const set = <K extends keyof Form>(name: K, value: Form[K]) => setForm((before) => ({ ...before, [name]: value }));
  const faults = useMemo(() => faultsOf(form), [form]);
  const create = $api.useMutation("post", "/api/sessions");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (Object.keys(faults).length > 0) return;
    create.mutate({ body: bodyOf(form) as Schemas["SessionCreate"] }, { onSuccess: (session) => void navigate({ to: "/sessions/$sessionId", params: { sessionId: session.id } }) });
  };
  return (
    <Page title="Start a session" crumbs={[{ name: "Sessions", link: { to: "/sessions" } }]} note="Say what you want done. The agent works in a sandbox of its own; you can pause it, look at each step and go back.">
      <form onSubmit={submit} className="grid gap-5">
        <Card className="grid gap-4 p-5">
          <TextArea
            label="Task"
            required
            autoFocus
            rows={5}
            value={form.prompt}
            placeholder="For example: Write a haiku generator in Python and test it"
            onChange={(event) => set("prompt", event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) event.currentTarget.form?.requestSubmit();
            }}
          />
          {form.prompt === "" && (
            <div className="flex flex-wrap gap-2">
              {IDEAS.map((idea) => (
                <Button key={idea} size="small" onClick={() => set("prompt", idea)}>
                  {idea}
                </Button>
              ))}
            </div>
          )}
          <div className="grid gap-4 sm:grid-cols-2">
            <ModelField value={form.model} onChange={(model) => set("model", model)} />
            <TextField label="Budget in dollars" inputMode="decimal" placeholder="No cap of its own" value={form.budget} error={faults.budget} onChange={(event) => set("budget", event.target.value)} hint="A hard cap on what its model calls may cost." />
          </div>
        </Card>
        <details className="group rounded-lg border border-line bg-surface shadow-card">
          <summary className="flex items-center gap-2 px-5 py-3 text-sm font-semibold">
            <ChevronDown size={16} className="transition-transform group-open:rotate-180" aria-hidden />
            More settings
          </summary>
          <div className="grid gap-5 border-t border-line p-5">
            <TextField label="Title" maxLength={100} value={form.title} placeholder="The beginning of the task" onChange={(event) => set("title", event.target.value)} />
            <TextArea label="Instructions" rows={4} value={form.instructions} hint="The system prompt: who the agent is and how it works." onChange={(event) => set("instructions", event.target.value)} />
            <Tools chosen={form.tools} onChange={(tools) => set("tools", tools)} />
            <Gates gates={form.gates} onChange={(gates) => set("gates", gates)} />
            <div className="grid gap-4 sm:grid-cols-3">
              <TextField label="Most turns" inputMode="numeric" value={form.maxTurns} error={faults.maxTurns} placeholder="50" onChange={(event) => set("maxTurns", event.target.value)} />
              <TextField label="Most minutes" inputMode="numeric" value={form.maxMinutes} error={faults.maxMinutes} placeholder="As the plan allows" onChange={(event) => set("maxMinutes", event.target.value)} />
              <TextField label="Priority" inputMode="numeric" value={form.priority} error={faults.priority} placeholder="0" hint="-100 to 100; higher goes first." onChange={(event) => set("priority", event.target.value)} />
            </div>
            <TextArea label="Hosts it may reach" mono rows={2} value={form.hosts} placeholder="api.example.com" hint="One a line; *.example.com for all below. Empty: none." onChange={(event) => set("hosts", event.target.value)} />
            <TextArea label="Shape of the result" mono rows={4} value={form.outputSchema} error={faults.outputSchema} placeholder='{"type": "object", "properties": {…}}' hint="A JSON Schema that the result has to satisfy." onChange={(event) => set("outputSchema", event.target.value)} />
            <Checkbox label="It may start sub-agents" checked={form.subAgents} onChange={(event) => set("subAgents", event.target.checked)} />
          </div>
        </details>
        {create.error ? <Problem error={create.error} /> : null}
        <div className="flex flex-wrap items-center gap-2">
          <Button type="submit" look="primary" busy={create.isPending} disabled={!form.prompt.trim() || Object.keys(faults).length > 0} icon={<Play size={15} />}>
            Start
          </Button>
          <CopyCurl method="POST" path="/api/sessions" body={bodyOf(form)} />
        </div>
      </form>
    </Page>
  );
}

function ModelField({ value, onChange }: { value: string; onChange: (model: string) => void }) {
  const models = $api.useQuery("get", "/api/models");
  return (
    <SelectField label="Model" value={value} onChange={(event) => onChange(event.target.value)} hint="auto: the tenant's fallback chain, else the built-in one.">
      <option value="auto">auto</option>
      {models.data?.items.map((model) => (
        <option key={model.id} value={model.id}>
          {model.id}
        </option>
      ))}
    </SelectField>
  );
}

/** Which tools it may use; none chosen means the usual ones. */
function Tools({ chosen, onChange }: { chosen: string[]; onChange: (tools: string[]) => void }) {
  const tools = $api.useQuery("get", "/api/tools");
  if (!tools.data) return null;
  return (
    <fieldset className="grid gap-2">
      <legend className="text-sm font-medium">Tools</legend>
      <p className="text-xs text-faint">None ticked: the usual ones.</p>
      <div className="grid max-h-64 gap-2 overflow-y-auto rounded-md border border-line p-3 sm:grid-cols-2">
        {tools.data.items.map((tool) => (
          <Checkbox
            key={tool.name}
            label={<code>{tool.name}</code>}
            hint={tool.description.split("\n")[0]?.slice(0, 90)}
            checked={chosen.includes(tool.name)}
            onChange={(event) => onChange(event.target.checked ? [...chosen, tool.name] : chosen.filter((each) => each !== tool.name))}
          />
        ))}
      </div>
    </fieldset>
  );
}
