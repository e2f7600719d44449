import {
  CalendarClock,
  ChartNoAxesColumn,
  House,
  Inbox,
  type LucideIcon,
  MessagesSquare,
  Settings,
  SquareActivity,
  Users,
  Waypoints,
  Webhook,
} from "lucide-react";

import type { Scope } from "@/api/session";

export interface Place {
  to: string;
  name: string;
  icon: LucideIcon;
  keys: string;
  /** Without it the place is empty for a person, and not shown. */
  scope: Scope;
}

/** The places of the dashboard, in the order of the sidebar. */
export const PLACES: Place[] = [
  { to: "/", name: "Home", icon: House, keys: "g h", scope: "sessions:read" },
  { to: "/needs-you", name: "Needs you", icon: Inbox, keys: "g n", scope: "sessions:read" },
  { to: "/chat", name: "Chat", icon: MessagesSquare, keys: "g c", scope: "messages:read" },
  { to: "/teams", name: "Teams", icon: Users, keys: "g t", scope: "teams:read" },
  { to: "/sessions", name: "Sessions", icon: SquareActivity, keys: "g s", scope: "sessions:read" },
  { to: "/chains", name: "Chains", icon: Waypoints, keys: "g x", scope: "sessions:read" },
  { to: "/schedules", name: "Schedules", icon: CalendarClock, keys: "g d", scope: "schedules:read" },
  { to: "/webhooks", name: "Webhooks", icon: Webhook, keys: "g w", scope: "webhooks:read" },
  { to: "/usage", name: "Usage", icon: ChartNoAxesColumn, keys: "g u", scope: "usage:read" },
  { to: "/settings", name: "Settings", icon: Settings, keys: "g e", scope: "tenant:read" },
];
