import { Link } from "@tanstack/react-router";
import { CalendarClock, Webhook } from "lucide-react";

import { $api } from "@/api/client";
import { Badge } from "@/ui/Badge";
import { Section } from "@/ui/Card";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { Time } from "@/ui/Time";

/** What asks the team without a person: its schedules and webhooks. */
export function Triggers({ teamId, schedules: maySchedules, webhooks: mayWebhooks }: { teamId: string; schedules: boolean; webhooks: boolean }) {
  const params = { params: { query: { team_id: teamId, limit: 20 } } };
  const schedules = $api.useQuery("get", "/api/schedules", params, { enabled: maySchedules });
  const webhooks = $api.useQuery("get", "/api/webhooks", params, { enabled: mayWebhooks });
  const failed = schedules.error ?? webhooks.error;
  const loading = schedules.isLoading || webhooks.isLoading;
  const none = !loading && !schedules.data?.items.length && !webhooks.data?.items.length;
  return (
    <Section title="Schedules and webhooks">
      {failed ? <Problem error={failed} /> : null}
      {loading && <Skeleton className="h-10" />}
      {none && !failed && (
        <p className="text-sm text-soft">
          None. A{" "}
          <Link to="/schedules" className="text-accent-ink underline">
            schedule
          </Link>{" "}
          asks it by the clock, a{" "}
          <Link to="/webhooks" className="text-accent-ink underline">
            webhook
          </Link>{" "}
          when another system calls.
        </p>
      )}
      <ul className="grid gap-2.5">
        {schedules.data?.items.map((schedule) => (
          <li key={schedule.id} className="flex items-start gap-2.5 text-sm">
            <CalendarClock size={15} aria-label="Schedule" className="mt-0.5 shrink-0 text-soft" />
            <div className="min-w-0 flex-1">
              <Link to="/schedules/$scheduleId" params={{ scheduleId: schedule.id }} className="rounded-sm font-medium break-words hover:text-accent-ink hover:underline">
                {schedule.name}
              </Link>
              <p className="text-xs text-soft">
                {schedule.next_at ? (
                  <>
                    Next <Time at={schedule.next_at} />
                  </>
                ) : (
                  "Does not fire again"
                )}
              </p>
            </div>
            {!schedule.enabled && <Badge>Off</Badge>}
          </li>
        ))}
        {webhooks.data?.items.map((webhook) => (
          <li key={webhook.id} className="flex items-start gap-2.5 text-sm">
            <Webhook size={15} aria-label="Webhook" className="mt-0.5 shrink-0 text-soft" />
            <div className="min-w-0 flex-1">
              <Link to="/webhooks/$webhookId" params={{ webhookId: webhook.id }} className="rounded-sm font-medium break-words hover:text-accent-ink hover:underline">
                {webhook.name}
              </Link>
              <p className="text-xs text-soft">
                {webhook.used_at ? (
                  <>
                    Used <Time at={webhook.used_at} />
                  </>
                ) : (
                  "Never used"
                )}
              </p>
            </div>
            {!webhook.enabled && <Badge>Off</Badge>}
          </li>
        ))}
      </ul>
    </Section>
  );
}
