import { $api } from "@/api/client";
import { useMe } from "@/api/session";
import type { Schemas } from "@/api/types";

const SETTING = "welcomed";

/** Whether somebody who may set things up sees a tenant in which nothing has been set up. */
export function useFirstSteps(): boolean {
  const me = useMe();
  const tenant = $api.useQuery("get", "/api/tenants/{tenant_id}", { params: { path: { tenant_id: me.tenant_id } } });
  const teams = $api.useQuery("get", "/api/teams", { params: { query: { limit: 100 } } });
  const may = me.scopes.includes("tenant:write") && me.scopes.includes("teams:write");
  if (!may || !tenant.data || !teams.data) return false;
  return tenant.data.settings[SETTING] !== true && teams.data.items.length === 0;
}

/** The settings of a tenant whose first steps are done. */
export function welcomed(tenant: Schemas["TenantRead"]): Record<string, unknown> {
  return { ...tenant.settings, [SETTING]: true };
}
