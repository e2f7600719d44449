import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { Pencil, Play, Trash2 } from "lucide-react";
import { type ReactNode, useState } from "react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { formatRelative, timeZone } from "@/lib/format";
import { Page } from "@/shell/Page";
import { Badge } from "@/ui/Badge";
import { Button, IconButton } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Confirm } from "@/ui/Dialog";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { Time } from "@/ui/Time";

import { promptOf } from "./form";
import { PostActions, usePostActions } from "./PostActions";
import { Runs } from "./Runs";
import { ScheduleDialog } from "./ScheduleDialog";
import { dropSchedules, useRunNow, useSwitch } from "./scheduleQueries";
import { Switch } from "./Switch";
import { Target } from "./Target";
import { TimingWords } from "./TimingWords";
import { dayAndClock, MISSED } from "./words";

const route = getRouteApi("/inside/schedules/$scheduleId");
const CRUMBS = [{ name: "Schedules", link: { to: "/schedules" } as const }];

/** One schedule: when it fires, what it does, and what came of it. */
export function Schedule() {
  const { scheduleId } = route.useParams();
  const query = $api.useQuery("get", "/api/schedules/{schedule_id}", { params: { path: { schedule_id: scheduleId } } });
  if (query.isSuccess) return <Known schedule={query.data} />;
  return (
    <Page title="Schedule" crumbs={CRUMBS}>
      {query.isError ? <Problem error={query.error} retry={() => void query.refetch()} /> : <Skeleton className="h-96" />}
    </Page>
  );
}

function Known({ schedule }: { schedule: Schemas["ScheduleDetails"] }) {
  const may = useMay("schedules:write");
  const runs = $api.useInfiniteQuery("get", "/api/schedules/{schedule_id}/runs", { params: { path: { schedule_id: schedule.id }, query: { limit: 25 } } }, paged);
  const source = { schedule_id: schedule.id };
  const actions = usePostActions(source).data?.items ?? [];
  return (
    <Page
      wide
      title={schedule.name}
      heading={
        <>
          <span className="min-w-0 break-words">{schedule.name}</span>
          {!schedule.enabled && <Badge tone="warn">Paused</Badge>}
          {schedule.enabled && !schedule.next_at && <Badge>Done</Badge>}
        </>
      }
      crumbs={CRUMBS}
      note={<TimingWords schedule={schedule} />}
      actions={<Actions schedule={schedule} may={may} />}
    >
      <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_22rem]">
        <Section title="Runs" note="Newest first.">
          <Runs query={runs} runs={itemsOf(runs.data)} teamId={schedule.team_id} actions={actions} none="It appears here when the schedule fires, or when you press Run now." />
        </Section>
        <div className="grid gap-5">
          <Upcoming schedule={schedule} />
          <Facts schedule={schedule} />
          <PostActions source={source} may={may} />
        </div>
      </div>
    </Page>
  );
}

function Actions({ schedule, may }: { schedule: Schemas["ScheduleDetails"]; may: boolean }) {
  const navigate = useNavigate();
  const [dialog, setDialog] = useState<"edit" | "delete">();
  const toggle = useSwitch(schedule);
  const run = useRunNow(schedule);
  const remove = $api.useMutation("delete", "/api/schedules/{schedule_id}", {
    onSuccess: () => {
      dropSchedules();
      void navigate({ to: "/schedules", search: { view: "list" } });
    },
  });
  const curl = <CopyCurl method="POST" path={`/api/schedules/${schedule.id}/run`} />;
  if (!may) return curl;
  return (
    <>
      {curl}
      <label className="flex items-center gap-2 text-sm text-soft">
        {schedule.enabled ? "On" : "Paused"}
        <Switch label={`${schedule.name} is on`} on={schedule.enabled} busy={toggle.busy} onChange={toggle.set} />
      </label>
      <IconButton label="Delete" look="plain" onClick={() => setDialog("delete")}>
        <Trash2 size={15} />
      </IconButton>
      <Button icon={<Pencil size={15} />} onClick={() => setDialog("edit")}>
        Edit
      </Button>
      <Button look="primary" icon={<Play size={15} />} busy={run.busy} onClick={run.start}>
        Run now
      </Button>
      {dialog === "edit" && <ScheduleDialog schedule={schedule} onClose={() => setDialog(undefined)} />}
      {dialog === "delete" && (
        <Confirm
          title={`Delete ${schedule.name}`}
          action="Delete the schedule"
          danger
          busy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate({ params: { path: { schedule_id: schedule.id } } })}
          onClose={() => setDialog(undefined)}
        >
          <p>It does not fire any more, and its history and post-actions are gone.</p>
          <p>Messages and sessions that it has started stay, and go on.</p>
        </Confirm>
      )}
    </>
  );
}

function Upcoming({ schedule }: { schedule: Schemas["ScheduleDetails"] }) {
  return (
    <Section title="Next runs" note={`In ${timeZone}, your time zone.`}>
      {schedule.upcoming.length === 0 ? (
        <p className="text-sm text-soft">{schedule.enabled ? "None: its moment has passed." : "None while it is paused. What falls into the pause is not made up for."}</p>
      ) : (
        <ol className="grid gap-1.5 text-sm">
          {schedule.upcoming.map((moment) => (
            <li key={moment} className="flex justify-between gap-3">
              <span className="tabular">{dayAndClock(Date.parse(moment), timeZone)}</span>
              <span className="shrink-0 text-xs leading-5 text-faint">{soon(moment)}</span>
            </li>
          ))}
        </ol>
      )}
    </Section>
  );
}

/** How far away it is, unless that would only repeat the date. */
function soon(moment: string): string {
  return Date.parse(moment) - Date.now() < 7 * 86_400_000 ? formatRelative(moment) : "";
}

function Facts({ schedule }: { schedule: Schemas["ScheduleDetails"] }) {
  return (
    <Section title="Details">
      <dl className="grid gap-3 text-sm">
        <Fact name="What it does">
          <Target of={schedule} linked />
        </Fact>
        <Fact name="Prompt">
          <span className="line-clamp-6 break-words whitespace-pre-wrap">{promptOf(schedule)}</span>
        </Fact>
        {schedule.cron && (
          <Fact name="Cron">
            <code>{schedule.cron}</code> in {schedule.timezone}
          </Fact>
        )}
        <Fact name="When missed">{MISSED[schedule.missed].words}</Fact>
        <Fact name="Made">
          <Time at={schedule.created_at} /> by {schedule.created_by}
        </Fact>
      </dl>
    </Section>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="grid gap-0.5">
      <dt className="text-xs text-faint">{name}</dt>
      <dd className="min-w-0">{children}</dd>
    </div>
  );
}
