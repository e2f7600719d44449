import { useState } from "react";

import { $api, api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { formatMoney } from "@/lib/format";
import { SelectField, TextField } from "@/ui/Field";

import { dollarsOf, microsOf } from "./money";
import { FormDialog } from "./parts";
import { refresh } from "./task";

type Scope = Schemas["BudgetPut"]["scope"];

const SCOPES: Record<Scope, { name: string; note: string }> = {
  tenant: { name: "The whole tenant", note: "For each calendar month (UTC)." },
  team: { name: "A team", note: "For each calendar month (UTC)." },
  session: { name: "A session", note: "For the session in all." },
};

interface Props {
  /** The budget to change; none: a new one. */
  budget?: Schemas["BudgetRead"];
  name?: string;
  onClose: () => void;
}

/** Sets a budget in dollars. */
export function BudgetForm({ budget, name, onClose }: Props) {
  const [scope, setScope] = useState<Scope>(budget?.scope ?? "tenant");
  const [subject, setSubject] = useState(budget?.subject_id ?? "");
  const [dollars, setDollars] = useState(budget ? dollarsOf(budget.cap_micros) : "");
  const cap = microsOf(dollars);
  const send = async () => {
    await api.PUT("/api/budgets", { body: { scope, cap_micros: cap!, ...(scope === "tenant" ? {} : { subject_id: subject }) } });
    await refresh("/api/budgets");
  };
  return (
    <FormDialog
      title={budget ? `The budget of ${name}` : "Set a budget"}
      action="Set"
      disabled={cap === undefined || (scope !== "tenant" && subject === "")}
      onSend={send}
      onClose={onClose}
    >
      {!budget && (
        <SelectField
          label="For"
          value={scope}
          hint={SCOPES[scope].note}
          onChange={(event) => {
            setScope(event.target.value as Scope);
            setSubject("");
          }}
        >
          {(Object.keys(SCOPES) as Scope[]).map((each) => (
            <option key={each} value={each}>
              {SCOPES[each].name}
            </option>
          ))}
        </SelectField>
      )}
      {!budget && scope === "team" && <TeamChoice value={subject} onChange={setSubject} />}
      {!budget && scope === "session" && <SessionChoice value={subject} onChange={setSubject} />}
      <TextField
        label="Cap in US dollars"
        inputMode="decimal"
        required
        autoFocus
        placeholder="25.00"
        value={dollars}
        onChange={(event) => setDollars(event.target.value)}
        error={dollars !== "" && cap === undefined ? "Give an amount such as 25 or 0.50." : undefined}
        hint={capNote(cap, budget)}
      />
    </FormDialog>
  );
}

function capNote(cap: number | undefined, budget: Props["budget"]): string {
  if (cap === 0) return "Allows nothing that costs; free models still work.";
  if (cap !== undefined && budget && cap < budget.spent_micros) {
    return `${formatMoney(budget.spent_micros)} is spent already: new calls will wait.`;
  }
  return "With a budget, models whose price is not known are refused.";
}

interface ChoiceProps {
  value: string;
  onChange: (id: string) => void;
}

function TeamChoice({ value, onChange }: ChoiceProps) {
  const teams = $api.useQuery("get", "/api/teams", { params: { query: { limit: 100 } } });
  return (
    <SelectField label="Team" required value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="">{teams.isPending ? "Loading…" : teams.data?.items.length ? "Choose a team…" : "There is no team yet"}</option>
      {teams.data?.items.map((team) => (
        <option key={team.id} value={team.id}>
          {team.name}
        </option>
      ))}
    </SelectField>
  );
}

function SessionChoice({ value, onChange }: ChoiceProps) {
  const [words, setWords] = useState("");
  const q = words.trim();
  const sessions = $api.useQuery("get", "/api/sessions", { params: { query: { limit: 50, ...(q ? { q } : {}) } } });
  return (
    <>
      <TextField label="Find a session" type="search" placeholder="Words in its title" value={words} onChange={(event) => setWords(event.target.value)} />
      <SelectField label="Session" required value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">{sessions.isPending ? "Loading…" : sessions.data?.items.length ? "Choose a session…" : "No session fits"}</option>
        {sessions.data?.items.map((session) => (
          <option key={session.id} value={session.id}>
            {session.title}
          </option>
        ))}
      </SelectField>
    </>
  );
}
