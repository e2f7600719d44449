import { useNavigate } from "@tanstack/react-router";
import { Check, LogOut } from "lucide-react";
import { useState } from "react";

import { $api, api } from "@/api/client";
import { signOut, useMe } from "@/api/session";
import type { Schemas } from "@/api/types";
import { Badge } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { Figure, Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { Time } from "@/ui/Time";
import { tell, tellProblem } from "@/ui/toasts";

import { deviceOf } from "./logins";
import { Ask, Line, Lines, Loaded } from "./parts";
import { ROLES } from "./roles";
import { groupScopes } from "./scopes";
import { refresh, useTask } from "./task";

export default function Account() {
  const me = useMe();
  return (
    <>
      <Who />
      {me.kind === "user" && <Password />}
      {me.kind === "user" && <Logins />}
      <MayDo />
    </>
  );
}

function Who() {
  const me = useMe();
  const navigate = useNavigate();
  const task = useTask();
  const leave = async () => {
    const well = await task.run(signOut);
    if (well) void navigate({ to: "/sign-in" });
  };
  return (
    <Section
      title="You"
      actions={
        <>
          <CopyCurl method="GET" path="/api/auth/me" />
          <Button size="small" icon={<LogOut size={14} />} busy={task.busy} onClick={() => void leave()}>
            Sign out
          </Button>
        </>
      }
    >
      <dl className="grid gap-4 sm:grid-cols-3">
        <Figure name="Name" value={<span className="text-base break-words">{me.name}</span>} note={me.email ?? undefined} />
        <Figure name="Tenant" value={<span className="text-base break-words">{me.tenant_name}</span>} note={me.tenant_slug} />
        <Figure
          name="Role"
          value={<span className="text-base">{me.role ? ROLES[me.role].name : "API key"}</span>}
          note={me.role ? ROLES[me.role].note : undefined}
        />
      </dl>
      {task.error ? <Problem error={task.error} /> : null}
    </Section>
  );
}

function Password() {
  const task = useTask();
  const [differs, setDiffers] = useState(false);
  const change = async (form: HTMLFormElement) => {
    const fields = new FormData(form);
    const next = String(fields.get("new"));
    setDiffers(next !== fields.get("again"));
    if (next !== fields.get("again")) return;
    const body = { current_password: String(fields.get("current")), new_password: next };
    if (await task.run(() => api.POST("/api/auth/password", { body }))) {
      form.reset();
      await refresh("/api/auth/logins");
      tell("Your password is changed. All your other sign-ins have ended.");
    }
  };
  return (
    <Section title="Password" note="Changing it ends all your other sign-ins.">
      <form
        className="grid gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          void change(event.currentTarget);
        }}
      >
        <div className="grid gap-4 sm:grid-cols-3">
          <TextField label="Current password" name="current" type="password" autoComplete="current-password" required maxLength={200} />
          <TextField label="New password" name="new" type="password" autoComplete="new-password" required minLength={10} maxLength={200} hint="At least 10 characters." />
          <TextField
            label="New password again"
            name="again"
            type="password"
            autoComplete="new-password"
            required
            maxLength={200}
            error={differs ? "It is not the same as the new password." : undefined}
          />
        </div>
        {task.error ? <Problem error={task.error} /> : null}
        <Button type="submit" busy={task.busy} className="justify-self-start">
          Change password
        </Button>
      </form>
    </Section>
  );
}

function Logins() {
  const logins = $api.useQuery("get", "/api/auth/logins");
  const [ending, setEnding] = useState<Schemas["LoginRead"]>();
  return (
    <Section title="Sign-ins" note="Where you are signed in.">
      <Loaded query={logins}>
        {(found) => (
          <Lines>
            {found.map((login) => (
              <Line
                key={login.id}
                title={
                  <>
                    <span title={login.user_agent}>{deviceOf(login.user_agent)}</span>
                    {login.current && <Badge tone="accent">This one</Badge>}
                  </>
                }
                note={
                  <>
                    Signed in <Time at={login.created_at} />, used <Time at={login.last_used_at} />, ends <Time at={login.expires_at} /> unless used
                  </>
                }
                actions={
                  !login.current && (
                    <Button size="small" onClick={() => setEnding(login)} aria-label={`End the sign-in of ${deviceOf(login.user_agent)}`}>
                      End
                    </Button>
                  )
                }
              />
            ))}
          </Lines>
        )}
      </Loaded>
      {ending && (
        <Ask
          title="End this sign-in?"
          action="End it"
          onClose={() => setEnding(undefined)}
          onConfirm={async () => {
            await api.DELETE("/api/auth/logins/{login_id}", { params: { path: { login_id: ending.id } } });
            refresh("/api/auth/logins").catch(tellProblem);
          }}
        >
          <p>{deviceOf(ending.user_agent)} has to sign in again. Nothing that runs is stopped.</p>
        </Ask>
      )}
    </Section>
  );
}

function MayDo() {
  const me = useMe();
  return (
    <Section title="What you may do">
      <div className="grid gap-x-8 gap-y-5 sm:grid-cols-2">
        {groupScopes(me.scopes).map((group) => (
          <div key={group.name}>
            <h3 className="pb-1.5 text-sm font-medium">{group.name}</h3>
            <ul className="grid gap-1">
              {group.scopes.map((each) => (
                <li key={each.scope} className="flex items-start gap-2 text-sm text-soft" title={each.scope}>
                  <Check size={14} className="mt-0.5 shrink-0 text-good" aria-hidden />
                  {each.words}
                </li>
              ))}
            </ul>
          </div>
        ))}
      </div>
    </Section>
  );
}
