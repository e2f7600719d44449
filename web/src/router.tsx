import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Outlet, redirect } from "@tanstack/react-router";

import { ApiProblem } from "@/api/problem";
import { loadMe } from "@/api/session";
import { basePath } from "@/lib/base";
import { Broken, Nowhere } from "@/shell/Trouble";
import { ScreenSkeleton, Shell } from "@/shell/Shell";

type Reader<T> = (value: unknown) => T | undefined;

const text: Reader<string> = (value) => {
  // The router reads "42" as a number; here it is a search for "42".
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return typeof value === "string" && value !== "" ? value : undefined;
};

const count: Reader<number> = (value) => {
  const number = typeof value === "string" ? Number.parseInt(value, 10) : value;
  return typeof number === "number" && Number.isSafeInteger(number) && number >= 0 ? number : undefined;
};

/** Reads the named fields of an address and drops all others; none of them has to be there. */
function fields<T extends Record<string, Reader<unknown>>>(readers: T) {
  type Found = { [K in keyof T]?: Exclude<ReturnType<T[K]>, undefined> };
  return (search: Record<string, unknown>): Found => {
    const found: Record<string, unknown> = {};
    for (const [name, read] of Object.entries(readers)) {
      const value = read(search[name]);
      if (value !== undefined) found[name] = value;
    }
    return found as Found;
  };
}

const root = createRootRoute({ component: Outlet, notFoundComponent: Nowhere, errorComponent: Broken });

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: fields({ next: text }),
  component: lazyRouteComponent(() => import("@/screens/entrance/SignIn"), "SignIn"),
});
const register = createRoute({
  getParentRoute: () => root,
  path: "/register",
  component: lazyRouteComponent(() => import("@/screens/entrance/Register"), "Register"),
});
const join = createRoute({
  getParentRoute: () => root,
  path: "/join",
  validateSearch: fields({ token: text }),
  component: lazyRouteComponent(() => import("@/screens/entrance/Join"), "Join"),
});

const inside = createRoute({
  getParentRoute: () => root,
  id: "inside",
  beforeLoad: async ({ location }) => {
    try {
      await loadMe();
    } catch (error) {
      if (error instanceof ApiProblem && error.status === 401) {
        throw redirect({ to: "/sign-in", search: { next: location.href === "/" ? undefined : location.href } });
      }
      throw error;
    }
  },
  component: Shell,
});

const home = createRoute({
  getParentRoute: () => inside,
  path: "/",
  component: lazyRouteComponent(() => import("@/screens/home/Home"), "Home"),
});
const welcome = createRoute({
  getParentRoute: () => inside,
  path: "/welcome",
  validateSearch: fields({ step: text }),
  component: lazyRouteComponent(() => import("@/screens/home/Welcome"), "Welcome"),
});
const needsYou = createRoute({
  getParentRoute: () => inside,
  path: "/needs-you",
  validateSearch: fields({ state: text, id: text }),
  component: lazyRouteComponent(() => import("@/screens/approvals/NeedsYou"), "NeedsYou"),
});
const chats = createRoute({
  getParentRoute: () => inside,
  path: "/chat",
  component: lazyRouteComponent(() => import("@/screens/chat/Chats"), "Chats"),
});
const chat = createRoute({
  getParentRoute: () => inside,
  path: "/chat/$teamId",
  validateSearch: fields({ message: text, q: text }),
  component: lazyRouteComponent(() => import("@/screens/chat/Chat"), "Chat"),
});
const teams = createRoute({
  getParentRoute: () => inside,
  path: "/teams",
  validateSearch: fields({ q: text, status: text }),
  component: lazyRouteComponent(() => import("@/screens/teams/Teams"), "Teams"),
});
const newTeam = createRoute({
  getParentRoute: () => inside,
  path: "/teams/new",
  validateSearch: fields({ template: text, step: count }),
  component: lazyRouteComponent(() => import("@/screens/teams/NewTeam"), "NewTeam"),
});
const team = createRoute({
  getParentRoute: () => inside,
  path: "/teams/$teamId",
  validateSearch: fields({ tab: text, agent: text }),
  component: lazyRouteComponent(() => import("@/screens/teams/Team"), "Team"),
});
const sessions = createRoute({
  getParentRoute: () => inside,
  path: "/sessions",
  validateSearch: fields({ q: text, state: text, team: text }),
  component: lazyRouteComponent(() => import("@/screens/sessions/Sessions"), "Sessions"),
});
const newSession = createRoute({
  getParentRoute: () => inside,
  path: "/sessions/new",
  validateSearch: fields({ prompt: text }),
  component: lazyRouteComponent(() => import("@/screens/sessions/NewSession"), "NewSession"),
});
const session = createRoute({
  getParentRoute: () => inside,
  path: "/sessions/$sessionId",
  validateSearch: fields({ step: count, tab: text, file: text }),
  component: lazyRouteComponent(() => import("@/screens/session/Session"), "Session"),
});
const chains = createRoute({
  getParentRoute: () => inside,
  path: "/chains",
  validateSearch: fields({ state: text }),
  component: lazyRouteComponent(() => import("@/screens/chains/Chains"), "Chains"),
});
const newChain = createRoute({
  getParentRoute: () => inside,
  path: "/chains/new",
  component: lazyRouteComponent(() => import("@/screens/chains/NewChain"), "NewChain"),
});
const chain = createRoute({
  getParentRoute: () => inside,
  path: "/chains/$chainId",
  validateSearch: fields({ view: text, node: text }),
  component: lazyRouteComponent(() => import("@/screens/chains/Chain"), "Chain"),
});
const schedules = createRoute({
  getParentRoute: () => inside,
  path: "/schedules",
  validateSearch: fields({ view: text, month: text, new: text }),
  component: lazyRouteComponent(() => import("@/screens/triggers/Schedules"), "Schedules"),
});
const schedule = createRoute({
  getParentRoute: () => inside,
  path: "/schedules/$scheduleId",
  component: lazyRouteComponent(() => import("@/screens/triggers/Schedule"), "Schedule"),
});
const webhooks = createRoute({
  getParentRoute: () => inside,
  path: "/webhooks",
  validateSearch: fields({ new: text }),
  component: lazyRouteComponent(() => import("@/screens/triggers/Webhooks"), "Webhooks"),
});
const webhook = createRoute({
  getParentRoute: () => inside,
  path: "/webhooks/$webhookId",
  component: lazyRouteComponent(() => import("@/screens/triggers/Webhook"), "Webhook"),
});
const usage = createRoute({
  getParentRoute: () => inside,
  path: "/usage",
  validateSearch: fields({ days: count, by: text }),
  component: lazyRouteComponent(() => import("@/screens/usage/Usage"), "Usage"),
});
const settings = createRoute({
  getParentRoute: () => inside,
  path: "/settings",
  beforeLoad: () => {
    throw redirect({ to: "/settings/$section", params: { section: "general" } });
  },
});
const settingsSection = createRoute({
  getParentRoute: () => inside,
  path: "/settings/$section",
  validateSearch: fields({ action: text, target: text, actor: text, since: text }),
  component: lazyRouteComponent(() => import("@/screens/settings/Settings"), "Settings"),
});

const tree = root.addChildren([
  signIn,
  register,
  join,
  inside.addChildren([
    home,
    welcome,
    needsYou,
    chats,
    chat,
    teams,
    newTeam,
    team,
    sessions,
    newSession,
    session,
    chains,
    newChain,
    chain,
    schedules,
    schedule,
    webhooks,
    webhook,
    usage,
    settings,
    settingsSection,
  ]),
]);

export const router = createRouter({
  routeTree: tree,
  basepath: basePath || "/",
  defaultPreload: "intent",
  defaultPendingComponent: ScreenSkeleton,
  defaultNotFoundComponent: Nowhere,
  defaultErrorComponent: Broken,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
