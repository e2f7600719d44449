import { Monitor, Moon, Sun } from "lucide-react";

import { $api, api } from "@/api/client";
import { useMay, useMe } from "@/api/session";
import type { Schemas } from "@/api/types";
import { formatDate } from "@/lib/format";
import { setTheme, type Theme, useTheme } from "@/shell/theme";
import { Button } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { Choice } from "@/ui/Tabs";
import { tell } from "@/ui/toasts";

import { Loaded, textOf } from "./parts";
import { refresh, useTask } from "./task";

export default function General() {
  const me = useMe();
  const tenant = $api.useQuery("get", "/api/tenants/{tenant_id}", { params: { path: { tenant_id: me.tenant_id } } });
  return (
    <>
      <Section title="Tenant" actions={<CopyCurl method="GET" path={`/api/tenants/${me.tenant_id}`} />}>
        <Loaded query={tenant}>{(found) => <TenantForm key={found.updated_at} tenant={found} />}</Loaded>
      </Section>
      <Looks />
    </>
  );
}

function TenantForm({ tenant }: { tenant: Schemas["TenantRead"] }) {
  const may = useMay("tenant:write");
  const task = useTask();
  const save = async (fields: FormData) => {
    const body = { name: textOf(fields, "name"), slug: textOf(fields, "slug") };
    const path = { tenant_id: tenant.id };
    if (await task.run(() => api.PATCH("/api/tenants/{tenant_id}", { params: { path }, body }))) {
      await refresh("/api/tenants", "/api/auth/me");
      tell("The tenant is saved.");
    }
  };
  return (
    <form
      className="grid gap-4"
      onSubmit={(event) => {
        event.preventDefault();
        void save(new FormData(event.currentTarget));
      }}
    >
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField label="Name" name="name" required maxLength={100} defaultValue={tenant.name} disabled={!may} />
        <TextField
          label="Slug"
          name="slug"
          required
          maxLength={63}
          pattern="[a-z0-9]([a-z0-9\-]{0,61}[a-z0-9])?"
          title="Lower-case letters, digits and hyphens, not at the ends"
          hint="Its short name, for the command line and for switching between tenants."
          defaultValue={tenant.slug}
          disabled={!may}
        />
      </div>
      <p className="text-xs text-faint">
        Created on {formatDate(tenant.created_at)}, on the {tenant.plan} plan.{!may && " Only an owner can rename it."}
      </p>
      {task.error ? <Problem error={task.error} /> : null}
      {may && (
        <Button type="submit" look="primary" busy={task.busy} className="justify-self-start">
          Save
        </Button>
      )}
    </form>
  );
}

const THEMES: { value: Theme; name: string; icon: typeof Sun }[] = [
  { value: "light", name: "Light", icon: Sun },
  { value: "dark", name: "Dark", icon: Moon },
  { value: "system", name: "As the system", icon: Monitor },
];

function Looks() {
  const { theme } = useTheme();
  return (
    <Section title="Looks" note="For you, in this browser.">
      <Choice
        label="Theme"
        options={THEMES.map(({ value, name, icon: Icon }) => ({
          value,
          name: (
            <span className="flex items-center gap-1.5">
              <Icon size={14} aria-hidden />
              {name}
            </span>
          ),
        }))}
        value={theme}
        onChange={setTheme}
      />
    </Section>
  );
}
