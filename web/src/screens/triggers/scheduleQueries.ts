import { useQueries } from "@tanstack/react-query";

import { $api } from "@/api/client";
import { queryClient } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { tellProblem } from "@/ui/toasts";

export type Schedule = Schemas["ScheduleRead"];
export type Run = Schemas["RunRead"];

const one = (id: string) => ({ params: { path: { schedule_id: id } } });

/** The lists of schedules are asked for again. */
function forgetSchedules(): void {
  void queryClient.invalidateQueries({ queryKey: ["get", "/api/schedules"] });
}

/** The lists are not shown again before they are asked for: one of them is gone. */
export function dropSchedules(): void {
  queryClient.removeQueries({ queryKey: ["get", "/api/schedules"] });
}

/** Shows a schedule as the server has just answered it. */
export function keepSchedule(schedule: Schemas["ScheduleDetails"]): void {
  queryClient.setQueryData($api.queryOptions("get", "/api/schedules/{schedule_id}", one(schedule.id)).queryKey, schedule);
  forgetSchedules();
}

/** Pause and resume as one switch. */
export function useSwitch(schedule: Schedule) {
  const options = { onSuccess: keepSchedule, onError: tellProblem };
  const pause = $api.useMutation("post", "/api/schedules/{schedule_id}/pause", options);
  const resume = $api.useMutation("post", "/api/schedules/{schedule_id}/resume", options);
  return {
    busy: pause.isPending || resume.isPending,
    set: (on: boolean) => (on ? resume : pause).mutate(one(schedule.id)),
  };
}

export function useRunNow(schedule: Schedule, onDone?: (run: Run) => void) {
  const run = $api.useMutation("post", "/api/schedules/{schedule_id}/run", {
    onSuccess: (started) => {
      void queryClient.invalidateQueries({ queryKey: ["get", "/api/schedules/{schedule_id}/runs"] });
      forgetSchedules();
      onDone?.(started);
    },
    onError: tellProblem,
  });
  return { busy: run.isPending, start: () => run.mutate(one(schedule.id)) };
}

/** The newest runs of each schedule, as far as they have come in. */
export function useNewestRuns(schedules: Schedule[], limit: number): Map<string, Run[]> {
  return useQueries({
    queries: schedules.map(({ id }) =>
      $api.queryOptions("get", "/api/schedules/{schedule_id}/runs", { params: { path: { schedule_id: id }, query: { limit } } }),
    ),
    combine: (results) => {
      const found = new Map<string, Run[]>();
      results.forEach((result, index) => result.data && found.set(schedules[index]!.id, result.data.items));
      return found;
    },
  });
}
