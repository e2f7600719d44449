import { getRouteApi, Link } from "@tanstack/react-router";
import clsx from "clsx";
import { Lock } from "lucide-react";
import { Fragment, Suspense, useEffect, useRef } from "react";

import { useMe } from "@/api/session";
import { Page } from "@/shell/Page";
import { Missing } from "@/shell/Trouble";
import { LinkButton } from "@/ui/Button";
import { Empty } from "@/ui/Empty";
import { Skeleton } from "@/ui/Skeleton";

import { type SectionInfo, SECTIONS, visibleSections } from "./sections";

const route = getRouteApi("/inside/settings/$section");

/** The tenant's settings and one's own, section by section. */
export function Settings() {
  const { section: id } = route.useParams();
  const visible = visibleSections(useMe().scopes);
  const section = SECTIONS.find((each) => each.id === id);
  if (!section) return <Missing />;
  const Screen = section.screen;
  return (
    <Page wide title={section.name} crumbs={[{ name: "Settings", link: { to: "/settings" } }]} note={section.note}>
      <div className="grid items-start gap-x-8 gap-y-5 md:grid-cols-[11rem_minmax(0,1fr)]">
        <SideNav sections={visible} current={id} />
        <div className="grid min-w-0 max-w-4xl content-start gap-5">
          {visible.includes(section) ? (
            <Suspense fallback={<Skeleton className="h-64" />}>
              <Screen key={id} />
            </Suspense>
          ) : (
            <Empty
              icon={Lock}
              title="Not for your role"
              action={
                <LinkButton to="/settings/$section" params={{ section: "account" }}>
                  See what you may do
                </LinkButton>
              }
            >
              An owner or an admin of this tenant can see this section.
            </Empty>
          )}
        </div>
      </div>
    </Page>
  );
}

function SideNav({ sections, current }: { sections: SectionInfo[]; current: string }) {
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    box.current?.querySelector('[aria-current="page"]')?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [current]);
  return (
    <nav
      ref={box}
      aria-label="Settings"
      className="flex gap-1 max-md:-mx-4 max-md:overflow-x-auto max-md:border-b max-md:border-line max-md:px-4 md:sticky md:top-6 md:grid md:gap-0.5"
    >
      {sections.map((section, index) => (
        <Fragment key={section.id}>
          {section.group !== sections[index - 1]?.group && (
            <p className={clsx("px-2.5 pb-1 text-xs text-faint max-md:hidden", index > 0 && "pt-4")}>{section.group}</p>
          )}
          <NavItem section={section} active={section.id === current} />
        </Fragment>
      ))}
    </nav>
  );
}

function NavItem({ section, active }: { section: SectionInfo; active: boolean }) {
  const Icon = section.icon;
  return (
    <Link
      to="/settings/$section"
      params={{ section: section.id }}
      aria-current={active ? "page" : undefined}
      className={clsx(
        "flex shrink-0 items-center gap-2.5 px-2.5 text-sm font-medium whitespace-nowrap -outline-offset-2",
        "max-md:h-10 max-md:border-b-2 md:h-8 md:rounded-md",
        active ? "text-ink max-md:border-accent md:bg-hover" : "text-soft hover:text-ink max-md:border-transparent md:hover:bg-hover",
      )}
    >
      <Icon size={15} aria-hidden className={active ? "text-accent-ink" : undefined} />
      {section.name}
    </Link>
  );
}
