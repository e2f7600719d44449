import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { Download, ScrollText, X } from "lucide-react";
import { useEffect, useState } from "react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay, useMe } from "@/api/session";
import type { Schemas } from "@/api/types";
import { serverUrl } from "@/lib/base";
import { Button, buttonClass } from "@/ui/Button";
import { Card } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { SelectField, TextField } from "@/ui/Field";
import { More } from "@/ui/More";

import { AuditLine } from "./AuditLine";
import { type AuditQuery, auditQuery, type AuditSearch, spaced } from "./auditFilter";
import { Loaded } from "./parts";

const route = getRouteApi("/inside/settings/$section");

/** The kinds of things that the server writes down changes of. */
const KINDS = [
  "session",
  "chain",
  "checkpoint",
  "approval",
  "team",
  "message",
  "schedule",
  "webhook",
  "post_action",
  "model_provider",
  "model_price",
  "fallback_chain",
  "budget",
  "tool_policy",
  "secret",
  "vault_key",
  "api_key",
  "service_token",
  "member",
  "invitation",
  "user",
  "login",
  "tenant",
  "object",
];

export default function Audit() {
  const search = route.useSearch();
  const navigate = useNavigate();
  const query = auditQuery(search);
  const log = $api.useInfiniteQuery("get", "/api/audit", { params: { query: { ...query, limit: 50 } } }, paged);
  const change = (next: AuditSearch) => {
    const whole = Object.fromEntries(Object.entries({ ...search, ...next }).filter(([, value]) => value));
    void navigate({ to: "/settings/$section", params: { section: "audit" }, search: whole, replace: true });
  };
  const text = new URLSearchParams({ ...query }).toString();
  const entries = itemsOf(log.data);
  return (
    <>
      <div className="flex flex-wrap items-center gap-2">
        <a href={serverUrl(`/api/audit/export?${exported(query, "csv")}`)} download className={buttonClass("plain", "small")}>
          <Download size={14} aria-hidden /> Export CSV
        </a>
        <a href={serverUrl(`/api/audit/export?${exported(query, "ndjson")}`)} download className={buttonClass("plain", "small")}>
          <Download size={14} aria-hidden /> Export JSON lines
        </a>
        <CopyCurl method="GET" path={`/api/audit${text ? `?${text}` : ""}`} />
      </div>
      <Filters search={search} entries={entries} onChange={change} />
      <Loaded query={log} rows={8}>
        {() =>
          entries.length === 0 ? (
            <Empty
              icon={ScrollText}
              title={text ? "Nothing fits" : "Nothing has been changed yet"}
              action={
                text && (
                  <Button onClick={() => void navigate({ to: "/settings/$section", params: { section: "audit" }, search: {} })}>Show all</Button>
                )
              }
            >
              {text ? "Try another filter." : "Whatever people, API keys and agents change is written down here."}
            </Empty>
          ) : (
            <Card>
              <ol className="divide-y divide-line">
                {entries.map((entry) => (
                  <AuditLine key={entry.id} entry={entry} onFilter={change} />
                ))}
              </ol>
            </Card>
          )
        }
      </Loaded>
      <More query={log} />
    </>
  );
}

function exported(query: AuditQuery, format: "csv" | "ndjson"): string {
  return new URLSearchParams({ format, ...query }).toString();
}

interface FilterProps {
  search: AuditSearch;
  entries: Schemas["AuditRead"][];
  onChange: (next: AuditSearch) => void;
}

function Filters({ search, entries, onChange }: FilterProps) {
  const [kind, id] = (search.target ?? "").split("/");
  const kinds = kind && !KINDS.includes(kind) ? [...KINDS, kind] : KINDS;
  return (
    <form role="search" className="grid gap-3" onSubmit={(event) => event.preventDefault()}>
      <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
        <ActionField value={search.action} entries={entries} onChange={(action) => onChange({ action })} />
        <ActorField value={search.actor} entries={entries} onChange={(actor) => onChange({ actor })} />
        <SelectField label="About" value={kind ?? ""} onChange={(event) => onChange({ target: event.target.value || undefined })}>
          <option value="">Anything</option>
          {kinds.map((each) => (
            <option key={each} value={each}>
              {spaced(each)}
            </option>
          ))}
        </SelectField>
        <TextField label="Since" type="date" value={search.since ?? ""} onChange={(event) => onChange({ since: event.target.value || undefined })} />
      </div>
      {id && (
        <p>
          <Button size="small" icon={<X size={13} />} onClick={() => onChange({ target: kind })}>
            Only about one {spaced(kind!)}
          </Button>
        </p>
      )}
    </form>
  );
}

interface FieldProps {
  value: string | undefined;
  entries: Schemas["AuditRead"][];
  onChange: (value: string | undefined) => void;
}

/** Free text, because actions are many; those in sight are offered. */
function ActionField({ value, entries, onChange }: FieldProps) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  const commit = () => text.trim() !== (value ?? "") && onChange(text.trim() || undefined);
  const seen = [...new Set(entries.map((entry) => entry.action))].sort();
  return (
    <>
      <TextField
        label="Action"
        list="audit-actions"
        maxLength={100}
        placeholder="Any, such as team.created"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          // Chosen from the list, or emptied: that is meant as it is.
          if (event.target.value === "" || seen.includes(event.target.value)) onChange(event.target.value || undefined);
        }}
        onBlur={commit}
        onKeyDown={(event) => event.key === "Enter" && commit()}
      />
      <datalist id="audit-actions">
        {seen.map((action) => (
          <option key={action} value={action} />
        ))}
      </datalist>
    </>
  );
}

/** Members, API keys, and whoever else is in sight. */
function ActorField({ value, entries, onChange }: FieldProps) {
  const me = useMe();
  const mayKeys = useMay("keys:read");
  const mayMembers = useMay("members:read");
  const members = $api.useQuery("get", "/api/members", { params: { query: { limit: 200 } } }, { enabled: mayMembers });
  const keys = $api.useQuery("get", "/api/keys", { params: { query: { limit: 200 } } }, { enabled: mayKeys });
  const actors = new Map<string, string>();
  for (const entry of entries) actors.set(entry.actor_id, entry.actor_name);
  for (const key of keys.data?.items ?? []) actors.set(key.id, `API key ${key.name}`);
  for (const member of members.data?.items ?? []) actors.set(member.user_id, member.user_id === me.id ? `${member.name} (you)` : member.name);
  if (value && !actors.has(value)) actors.set(value, "Somebody else");
  return (
    <SelectField label="By" value={value ?? ""} onChange={(event) => onChange(event.target.value || undefined)}>
      <option value="">Anybody</option>
      {[...actors].map(([id, name]) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </SelectField>
  );
}
