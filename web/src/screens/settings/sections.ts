import { Building2, ChartPie, Cpu, KeyRound, type LucideIcon, ScrollText, ShieldCheck, User, Users, Wallet, Wrench } from "lucide-react";
import { type ComponentType, lazy } from "react";

import type { Scope } from "@/api/session";

export interface SectionInfo {
  id: string;
  name: string;
  group: string;
  icon: LucideIcon;
  /** What one needs to see it; null: nothing. */
  scope: Scope | null;
  note: string;
  screen: ComponentType;
}

/** The sections of the settings, in their order. */
export const SECTIONS: SectionInfo[] = [
  {
    id: "general",
    name: "General",
    group: "Tenant",
    icon: Building2,
    scope: "tenant:read",
    note: "What this tenant is called, and how the dashboard looks for you.",
    screen: lazy(() => import("./General")),
  },
  {
    id: "members",
    name: "Members",
    group: "Tenant",
    icon: Users,
    scope: "members:read",
    note: "Who belongs to this tenant, and who is invited.",
    screen: lazy(() => import("./Members")),
  },
  {
    id: "plan",
    name: "Plan",
    group: "Tenant",
    icon: ChartPie,
    scope: "tenant:read",
    note: "What the plan allows and how much of it is used.",
    screen: lazy(() => import("./Plan")),
  },
  {
    id: "providers",
    name: "Providers",
    group: "Models",
    icon: Cpu,
    scope: "models:read",
    note: "Where models come from, what they cost, and what happens when one fails.",
    screen: lazy(() => import("./Providers")),
  },
  {
    id: "budgets",
    name: "Budgets",
    group: "Models",
    icon: Wallet,
    scope: "usage:read",
    note: "Hard caps on what may be spent.",
    screen: lazy(() => import("./Budgets")),
  },
  {
    id: "tools",
    name: "Tools",
    group: "Safety",
    icon: Wrench,
    scope: "tools:read",
    note: "What agents may do by themselves, what a person has to approve, and what they may not do.",
    screen: lazy(() => import("./Tools")),
  },
  {
    id: "vault",
    name: "Vault",
    group: "Safety",
    icon: ShieldCheck,
    scope: "vault:read",
    note: "Secrets that agents use without anybody seeing them.",
    screen: lazy(() => import("./Vault")),
  },
  {
    id: "keys",
    name: "API keys",
    group: "Safety",
    icon: KeyRound,
    scope: "keys:read",
    note: "Credentials for your own programs.",
    screen: lazy(() => import("./Keys")),
  },
  {
    id: "audit",
    name: "Audit log",
    group: "Safety",
    icon: ScrollText,
    scope: "audit:read",
    note: "Who changed what and when. Nobody can change it afterwards.",
    screen: lazy(() => import("./Audit")),
  },
  {
    id: "account",
    name: "Account",
    group: "You",
    icon: User,
    scope: null,
    note: "Who you are here, what you may do, and where you are signed in.",
    screen: lazy(() => import("./Account")),
  },
];

/** The sections that somebody with these scopes may see. */
export function visibleSections(scopes: readonly Scope[]): SectionInfo[] {
  return SECTIONS.filter((section) => section.scope === null || scopes.includes(section.scope));
}

