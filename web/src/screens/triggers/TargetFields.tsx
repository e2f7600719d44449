import { Link } from "@tanstack/react-router";

import { $api } from "@/api/client";
import { SelectField, TextArea } from "@/ui/Field";
import { Choice } from "@/ui/Tabs";

import type { TargetForm } from "./form";

interface Props {
  form: TargetForm;
  onChange: (form: TargetForm) => void;
  /** The team and the kind stay as they were made. */
  fixed?: boolean;
  promptHint?: string;
  promptFault?: string | undefined;
  placeholder?: string;
}

/** What is done: a team is asked, or a session is started. */
export function TargetFields({ form, onChange, fixed = false, promptHint, promptFault, placeholder }: Props) {
  const set = (change: Partial<TargetForm>) => onChange({ ...form, ...change });
  return (
    <fieldset className="grid gap-4">
      <legend className="sr-only">What it does</legend>
      {!fixed && (
        <div>
          <Choice
            label="What it does"
            value={form.kind}
            onChange={(kind) => set({ kind })}
            options={[
              { value: "team", name: "Ask a team" },
              { value: "session", name: "Start a session" },
            ]}
          />
        </div>
      )}
      {form.kind === "team" && <TeamField value={form.teamId} disabled={fixed} onChange={(teamId) => set({ teamId })} />}
      {form.kind === "session" && <ModelField value={form.model} onChange={(model) => set({ model })} />}
      <TextArea
        label="Prompt"
        required
        rows={4}
        value={form.prompt}
        placeholder={placeholder}
        hint={promptHint}
        error={promptFault}
        onChange={(event) => set({ prompt: event.target.value })}
      />
    </fieldset>
  );
}

function TeamField({ value, disabled, onChange }: { value: string; disabled: boolean; onChange: (id: string) => void }) {
  const teams = $api.useQuery("get", "/api/teams", { params: { query: { limit: 200 } } });
  if (teams.data?.items.length === 0) {
    return (
      <p className="text-sm text-soft">
        There is no team yet.{" "}
        <Link to="/teams/new" className="text-accent-ink underline">
          Make a team
        </Link>{" "}
        or start a session instead.
      </p>
    );
  }
  return (
    <SelectField
      label="Team"
      required
      disabled={disabled}
      hint={disabled ? "The team of a schedule or webhook stays; make a new one for another team." : undefined}
      value={value}
      onChange={(event) => onChange(event.target.value)}
    >
      <option value="">Choose a team</option>
      {teams.data?.items.map((team) => (
        <option key={team.id} value={team.id}>
          {team.name}
        </option>
      ))}
    </SelectField>
  );
}

function ModelField({ value, onChange }: { value: string; onChange: (model: string) => void }) {
  const models = $api.useQuery("get", "/api/models").data?.items ?? [];
  const unlisted = value !== "auto" && !models.some((model) => model.id === value);
  return (
    <SelectField label="Model" value={value} onChange={(event) => onChange(event.target.value)} hint="auto: the tenant's fallback chain, else the built-in one.">
      <option value="auto">auto</option>
      {unlisted && <option value={value}>{value}</option>}
      {models.map((model) => (
        <option key={model.id} value={model.id}>
          {model.id}
        </option>
      ))}
    </SelectField>
  );
}
