import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { CalendarClock, Plus } from "lucide-react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay } from "@/api/session";
import { timeZone } from "@/lib/format";
import { Page } from "@/shell/Page";
import { useShortcut } from "@/shell/shortcuts";
import { LinkButton } from "@/ui/Button";
import { CopyCurl } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { More } from "@/ui/More";
import { Problem } from "@/ui/Problem";
import { Skeleton, SkeletonRows } from "@/ui/Skeleton";
import { Tabs } from "@/ui/Tabs";

import { Calendar } from "./Calendar";
import { monthOf, readMonth } from "./month";
import { ScheduleDialog } from "./ScheduleDialog";
import { ScheduleList } from "./ScheduleList";

const route = getRouteApi("/inside/schedules");

/** All schedules: what is to come as a calendar, or each with its settings as a list. */
export function Schedules() {
  const search = route.useSearch();
  const navigate = useNavigate();
  const may = useMay("schedules:write");
  const query = $api.useInfiniteQuery("get", "/api/schedules", { params: { query: { limit: 200 } } }, paged);
  const schedules = itemsOf(query.data);
  const view = search.view === "list" ? "list" : "calendar";
  useShortcut("c", "New schedule", () => void navigate({ to: "/schedules", search: { ...search, new: "1" } }), may);
  const create = may && (
    <LinkButton to="/schedules" search={{ ...search, new: "1" }} look="primary" icon={<Plus size={15} />}>
      New schedule
    </LinkButton>
  );
  return (
    <Page
      wide
      title="Schedules"
      note={`They ask a team, or start a session, by the clock. Times are in ${timeZone}, your time zone.`}
      actions={
        <>
          <CopyCurl method="GET" path="/api/schedules" />
          {create}
        </>
      }
    >
      <Tabs
        label="Views"
        tabs={[
          { name: "Calendar", active: view === "calendar", link: { to: "/schedules", search: search.month ? { month: search.month } : {} } },
          { name: "List", active: view === "list", link: { to: "/schedules", search: { view: "list" } } },
        ]}
      />
      {query.isPending && (view === "list" ? <SkeletonRows rows={6} className="h-16" /> : <Skeleton className="h-[36rem]" />)}
      {query.isError && <Problem error={query.error} retry={() => void query.refetch()} />}
      {query.isSuccess && schedules.length === 0 && (
        <Empty icon={CalendarClock} title="No schedule yet" action={create}>
          Let a team report every morning, or start a session each night.
        </Empty>
      )}
      {schedules.length > 0 && view === "list" && <ScheduleList schedules={schedules} />}
      {schedules.length > 0 && view === "calendar" && <Calendar schedules={schedules} month={readMonth(search.month) ?? monthOf(Date.now(), timeZone)} />}
      <More query={query} />
      {search.new !== undefined && may && <ScheduleDialog onClose={() => void navigate({ to: "/schedules", search: { ...search, new: undefined }, replace: true })} />}
    </Page>
  );
}
