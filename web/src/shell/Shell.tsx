import { Link, Outlet, useNavigate, useRouter } from "@tanstack/react-router";
import clsx from "clsx";
import { CircleHelp, LogOut, Menu as MenuIcon, Monitor, Moon, Search, Sun, UserRound } from "lucide-react";
import { Suspense, useEffect, useState } from "react";

import { $api, onSignedOut, refreshSignIn } from "@/api/client";
import { queryClient } from "@/api/queries";
import { signOut, useMe } from "@/api/session";
import { LiveProvider, useLiveState } from "@/live/LiveProvider";
import { Badge } from "@/ui/Badge";
import { IconButton } from "@/ui/Button";
import { Kbd } from "@/ui/Kbd";
import { Menu, MenuItem, MenuLabel, MenuLine } from "@/ui/Menu";
import { Skeleton } from "@/ui/Skeleton";
import { tellProblem, Toasts } from "@/ui/toasts";

import { PLACES, type Place } from "./navigation";
import { Palette } from "./Palette";
import { useShortcut } from "./shortcuts";
import { ShortcutsHelp } from "./ShortcutsHelp";
import { setTheme, type Theme, useTheme } from "./theme";

/** Everything around the screens of somebody who is signed in. */
export function Shell() {
  const router = useRouter();
  const leave = () => {
    queryClient.clear();
    void router.navigate({ to: "/sign-in", search: { next: router.state.location.href } });
  };
  useEffect(() => onSignedOut(leave));
  return (
    <LiveProvider onEnded={leave}>
      <Frame />
      <Toasts />
    </LiveProvider>
  );
}

function Frame() {
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const navigate = useNavigate();
  useShortcut("mod+k", "Go to, find or do", () => setPalette(true));
  useShortcut("?", "Show the shortcuts", () => setHelp(true));
  return (
    <div className="grid h-full grid-rows-[auto_minmax(0,1fr)_auto] md:grid-cols-[232px_minmax(0,1fr)] md:grid-rows-[minmax(0,1fr)]">
      <a
        href="#main"
        onClick={(event) => {
          // With a <base>, "#main" would be a place on the first page.
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
        className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:rounded-md focus:bg-raised focus:p-3"
      >
        Skip to content
      </a>
      {PLACES.map((place) => (
        <PlaceShortcut key={place.to} place={place} go={() => void navigate({ to: place.to })} />
      ))}
      <Sidebar onSearch={() => setPalette(true)} onHelp={() => setHelp(true)} />
      <PhoneBar onSearch={() => setPalette(true)} />
      <main id="main" tabIndex={-1} className="relative overflow-y-auto outline-none">
        <Suspense fallback={<ScreenSkeleton />}>
          <Outlet />
        </Suspense>
      </main>
      <PhoneNav />
      {palette && <Palette onClose={() => setPalette(false)} />}
      {help && <ShortcutsHelp onClose={() => setHelp(false)} />}
    </div>
  );
}

function PlaceShortcut({ place, go }: { place: Place; go: () => void }) {
  useShortcut(place.keys, `Go to ${place.name}`, go);
  return null;
}

export function ScreenSkeleton() {
  return (
    <div role="status" aria-label="Loading" className="mx-auto grid max-w-5xl gap-5 px-4 py-7 md:px-8">
      <Skeleton className="h-8 w-56" />
      <Skeleton className="h-40" />
      <Skeleton className="h-64" />
    </div>
  );
}

function usePlaces(): Place[] {
  const { scopes } = useMe();
  return PLACES.filter((place) => scopes.includes(place.scope));
}

function Sidebar({ onSearch, onHelp }: { onSearch: () => void; onHelp: () => void }) {
  return (
    <aside className="hidden min-h-0 flex-col gap-3 border-r border-line bg-sunken p-3 md:flex">
      <Link to="/" className="flex items-center gap-2.5 rounded-md px-2 py-1.5">
        <Logo />
        <span className="text-lg font-semibold tracking-tight">AgentOS</span>
      </Link>
      <button
        type="button"
        onClick={onSearch}
        className="flex h-9 items-center gap-2.5 rounded-md border border-line bg-surface px-2.5 text-sm text-faint shadow-card hover:text-ink"
      >
        <Search size={15} aria-hidden />
        <span className="flex-1 text-left">Search</span>
        <Kbd keys="mod+K" />
      </button>
      <nav aria-label="Main" className="grid gap-0.5 overflow-y-auto">
        {usePlaces().map((place) => (
          <NavLink key={place.to} place={place} />
        ))}
      </nav>
      <div className="mt-auto grid gap-1">
        <LiveNote />
        <div className="flex items-center gap-1">
          <Account />
          <IconButton label="Keyboard shortcuts" onClick={onHelp}>
            <CircleHelp size={17} />
          </IconButton>
        </div>
      </div>
    </aside>
  );
}

function NavLink({ place }: { place: Place }) {
  return (
    <Link
      to={place.to}
      activeOptions={{ exact: place.to === "/" }}
      className="group flex h-9 items-center gap-2.5 rounded-md px-2.5 text-sm font-medium text-soft hover:bg-hover hover:text-ink aria-[current=page]:bg-surface aria-[current=page]:text-ink aria-[current=page]:shadow-card"
    >
      <place.icon size={16} className="group-aria-[current=page]:text-accent-ink" aria-hidden />
      <span className="flex-1">{place.name}</span>
      {place.to === "/needs-you" && <WaitingCount />}
    </Link>
  );
}

function WaitingCount() {
  const waiting = $api.useQuery("get", "/api/approvals", { params: { query: { state: "waiting", limit: 50 } } });
  const count = waiting.data?.items.length ?? 0;
  if (count === 0) return null;
  return (
    <Badge tone="warn">
      {waiting.data?.next_cursor ? `${count}+` : count}
      <span className="sr-only"> waiting</span>
    </Badge>
  );
}

function LiveNote() {
  const state = useLiveState();
  return (
    <p role="status" className="min-h-6 px-2.5 text-xs text-warn">
      {state === "away" && "Connection lost. It goes on by itself."}
    </p>
  );
}

const THEMES: { theme: Theme; name: string; icon: typeof Sun }[] = [
  { theme: "light", name: "Light", icon: Sun },
  { theme: "dark", name: "Dark", icon: Moon },
  { theme: "system", name: "As the system", icon: Monitor },
];

function Account({ compact = false }: { compact?: boolean }) {
  const me = useMe();
  const { theme } = useTheme();
  const navigate = useNavigate();
  const switchTo = async (slug: string) => {
    if (!(await refreshSignIn(slug))) return;
    queryClient.clear();
    location.assign(document.baseURI);
  };
  const end = async () => {
    await signOut().catch(tellProblem);
    void navigate({ to: "/sign-in" });
  };
  return (
    <Menu
      align="start"
      trigger={
        <button type="button" aria-label={compact ? `Account of ${me.name}` : undefined} className={clsx("flex min-w-0 items-center gap-2.5 rounded-md p-1.5 text-left hover:bg-hover", !compact && "flex-1")}>
          <span aria-hidden className="grid size-7 shrink-0 place-items-center rounded-full bg-accent-soft text-xs font-semibold text-accent-ink">
            {me.name.slice(0, 1).toUpperCase()}
          </span>
          {!compact && (
            <span className="min-w-0 text-xs leading-tight">
              <span className="block truncate font-medium text-ink">{me.tenant_name}</span>
              <span className="block truncate text-faint">{me.name}</span>
            </span>
          )}
        </button>
      }
    >
      <MenuLabel>
        {me.email ?? me.name}, {me.role}
      </MenuLabel>
      <MenuItem icon={<UserRound size={15} />} onSelect={() => void navigate({ to: "/settings/$section", params: { section: "account" } })}>
        Your account
      </MenuItem>
      {me.tenants.length > 1 && (
        <>
          <MenuLine />
          <MenuLabel>Tenants</MenuLabel>
          {me.tenants.map((tenant) => (
            <MenuItem key={tenant.id} disabled={tenant.id === me.tenant_id} onSelect={() => void switchTo(tenant.slug)}>
              {tenant.name}
            </MenuItem>
          ))}
        </>
      )}
      <MenuLine />
      <MenuLabel>Theme</MenuLabel>
      {THEMES.map((each) => (
        <MenuItem key={each.theme} icon={<each.icon size={15} />} disabled={each.theme === theme} onSelect={() => setTheme(each.theme)}>
          {each.name}
        </MenuItem>
      ))}
      <MenuLine />
      <MenuItem icon={<LogOut size={15} />} onSelect={() => void end()}>
        Sign out
      </MenuItem>
    </Menu>
  );
}

function PhoneBar({ onSearch }: { onSearch: () => void }) {
  return (
    <header className="flex items-center gap-2 border-b border-line bg-sunken px-3 py-2 md:hidden">
      <Link to="/" aria-label="AgentOS, home" className="flex items-center gap-2">
        <Logo />
        <span className="font-semibold">AgentOS</span>
      </Link>
      <div className="ml-auto flex items-center gap-1">
        <IconButton label="Search" onClick={onSearch}>
          <Search size={18} />
        </IconButton>
        <Account compact />
      </div>
    </header>
  );
}

/** The four places one needs on the way, and a menu with the rest. */
function PhoneNav() {
  const navigate = useNavigate();
  const places = usePlaces();
  const first = places.slice(0, 4);
  const rest = places.slice(4);
  return (
    <nav aria-label="Main" className="grid grid-cols-5 border-t border-line bg-sunken pb-[env(safe-area-inset-bottom)] md:hidden">
      {first.map((place) => (
        <Link
          key={place.to}
          to={place.to}
          activeOptions={{ exact: place.to === "/" }}
          className="grid justify-items-center gap-0.5 py-2 text-2xs font-medium text-soft aria-[current=page]:text-accent-ink"
        >
          <place.icon size={19} aria-hidden />
          {place.name}
        </Link>
      ))}
      <Menu
        trigger={
          <button type="button" className="grid justify-items-center gap-0.5 py-2 text-2xs font-medium text-soft">
            <MenuIcon size={19} aria-hidden />
            More
          </button>
        }
      >
        {rest.map((place) => (
          <MenuItem key={place.to} icon={<place.icon size={15} />} onSelect={() => void navigate({ to: place.to })}>
            {place.name}
          </MenuItem>
        ))}
      </Menu>
    </nav>
  );
}

export function Logo({ size = 24 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden className="shrink-0">
      <rect width="32" height="32" rx="8" fill="var(--accent)" />
      <path d="M5 17h5l3-8 5.5 15L22 13l1.8 4H27" fill="none" stroke="#fff" strokeWidth="2.6" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}
