import type { Schemas } from "@/api/types";

export type Role = Schemas["Role"];

export const ROLES: Record<Role, { name: string; note: string }> = {
  owner: { name: "Owner", note: "May do everything, also rename the tenant and make owners." },
  admin: { name: "Admin", note: "May do everything but rename the tenant and touch owners." },
  member: { name: "Member", note: "May work with sessions, teams and approvals, not change settings." },
};

/** The roles that somebody may give: only owners make owners. */
export function rolesToGive(isOwner: boolean): Role[] {
  return isOwner ? ["owner", "admin", "member"] : ["admin", "member"];
}
