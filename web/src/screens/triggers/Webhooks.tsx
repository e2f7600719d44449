import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Plus, Webhook as WebhookIcon } from "lucide-react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay } from "@/api/session";
import { Page } from "@/shell/Page";
import { useShortcut } from "@/shell/shortcuts";
import { LinkButton } from "@/ui/Button";
import { CopyCurl } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { More } from "@/ui/More";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";

import { promptOf } from "./form";
import { LastRun, Pair } from "./LastRun";
import { Switch } from "./Switch";
import { Target } from "./Target";
import { WebhookDialog } from "./WebhookDialog";
import { useWebhookSwitch, type Webhook } from "./webhookQueries";

const route = getRouteApi("/inside/webhooks");

/** All webhooks. */
export function Webhooks() {
  const search = route.useSearch();
  const navigate = useNavigate();
  const may = useMay("webhooks:write");
  const query = $api.useInfiniteQuery("get", "/api/webhooks", { params: { query: { limit: 100 } } }, paged);
  const webhooks = itemsOf(query.data);
  useShortcut("c", "New webhook", () => void navigate({ to: "/webhooks", search: { new: "1" } }), may);
  const create = may && (
    <LinkButton to="/webhooks" search={{ new: "1" }} look="primary" icon={<Plus size={15} />}>
      New webhook
    </LinkButton>
  );
  return (
    <Page
      wide
      title="Webhooks"
      note="Each lets another system ask a team, or start a session, by sending to a secret address."
      actions={
        <>
          <CopyCurl method="GET" path="/api/webhooks" />
          {create}
        </>
      }
    >
      {query.isPending && <SkeletonRows rows={5} className="h-16" />}
      {query.isError && <Problem error={query.error} retry={() => void query.refetch()} />}
      {query.isSuccess && webhooks.length === 0 && (
        <Empty icon={WebhookIcon} title="No webhook yet" action={create}>
          Let an issue tracker, a form or a build ask a team as soon as something happens.
        </Empty>
      )}
      {webhooks.length > 0 && (
        <ul className="divide-y divide-line rounded-lg border border-line bg-surface shadow-card">
          {webhooks.map((webhook) => (
            <Row key={webhook.id} webhook={webhook} may={may} />
          ))}
        </ul>
      )}
      <More query={query} />
      {search.new !== undefined && may && <WebhookDialog onClose={() => void navigate({ to: "/webhooks", replace: true })} />}
    </Page>
  );
}

function Row({ webhook, may }: { webhook: Webhook; may: boolean }) {
  const toggle = useWebhookSwitch(webhook);
  return (
    <li className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-5 gap-y-1 px-4 py-3 md:grid-cols-[minmax(0,3fr)_minmax(0,4fr)_11rem_7rem_auto]">
      <div className="min-w-0">
        <Link to="/webhooks/$webhookId" params={{ webhookId: webhook.id }} className="block truncate text-sm font-medium hover:underline" title={webhook.name}>
          {webhook.name}
        </Link>
        <span className="flex text-xs text-soft">
          <Target of={webhook} />
        </span>
      </div>
      <p className="truncate text-sm text-soft max-md:hidden" title={promptOf(webhook)}>
        {promptOf(webhook)}
      </p>
      <div className="max-md:col-span-2">
        <LastRun of={webhook} at={{ to: "/webhooks/$webhookId", params: { webhookId: webhook.id } }} />
      </div>
      <div className="max-md:hidden">
        <Pair name="Token ends in">
          <code>…{webhook.token_hint}</code>
        </Pair>
      </div>
      <div className="max-md:col-start-2 max-md:row-start-1">
        {may ? <Switch label={`${webhook.name} is on`} on={webhook.enabled} busy={toggle.busy} onChange={toggle.set} /> : webhook.enabled ? "On" : "Off"}
      </div>
    </li>
  );
}
