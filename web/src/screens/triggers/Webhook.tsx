import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { KeyRound, Pencil, Trash2 } from "lucide-react";
import { type ReactNode, useState } from "react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay } from "@/api/session";
import { Page } from "@/shell/Page";
import { Badge } from "@/ui/Badge";
import { Button, IconButton } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyButton } from "@/ui/Copy";
import { Confirm } from "@/ui/Dialog";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { Time } from "@/ui/Time";

import { promptOf } from "./form";
import { keepToken, useFreshToken } from "./freshTokens";
import { PostActions, usePostActions } from "./PostActions";
import { Runs } from "./Runs";
import { Switch } from "./Switch";
import { Target } from "./Target";
import { exampleBody, hookCurl, variablesOf } from "./template";
import { TokenShown } from "./TokenShown";
import { Variables } from "./Variables";
import { WebhookDialog } from "./WebhookDialog";
import { dropWebhooks, keepWebhook, oneWebhook, useWebhookSwitch, type Webhook as WebhookRead } from "./webhookQueries";

const route = getRouteApi("/inside/webhooks/$webhookId");
const CRUMBS = [{ name: "Webhooks", link: { to: "/webhooks" } as const }];

/** One webhook: how to send to it, and what came of what was sent. */
export function Webhook() {
  const { webhookId } = route.useParams();
  const query = $api.useQuery("get", "/api/webhooks/{webhook_id}", oneWebhook(webhookId));
  if (query.isSuccess) return <Known webhook={query.data} />;
  return (
    <Page title="Webhook" crumbs={CRUMBS}>
      {query.isError ? <Problem error={query.error} retry={() => void query.refetch()} /> : <Skeleton className="h-96" />}
    </Page>
  );
}

function Known({ webhook }: { webhook: WebhookRead }) {
  const may = useMay("webhooks:write");
  const token = useFreshToken(webhook.id);
  const runs = $api.useInfiniteQuery("get", "/api/webhooks/{webhook_id}/runs", { params: { path: { webhook_id: webhook.id }, query: { limit: 25 } } }, paged);
  const source = { webhook_id: webhook.id };
  const actions = usePostActions(source).data?.items ?? [];
  return (
    <Page
      wide
      title={webhook.name}
      heading={
        <>
          <span className="min-w-0 break-words">{webhook.name}</span>
          {!webhook.enabled && <Badge tone="warn">Off</Badge>}
        </>
      }
      crumbs={CRUMBS}
      note={<Target of={webhook} linked />}
      actions={may && <Actions webhook={webhook} />}
    >
      {token && <TokenShown key={token} webhook={webhook} token={token} />}
      <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_22rem]">
        <Section title="Runs" note="Newest first.">
          <Runs query={runs} runs={itemsOf(runs.data)} teamId={webhook.team_id} actions={actions} none="It appears here as soon as something is sent." />
        </Section>
        <div className="grid gap-5">
          {!token && <Sending webhook={webhook} />}
          <Facts webhook={webhook} />
          <PostActions source={source} may={may} />
        </div>
      </div>
    </Page>
  );
}

function Actions({ webhook }: { webhook: WebhookRead }) {
  const navigate = useNavigate();
  const [dialog, setDialog] = useState<"edit" | "rotate" | "delete">();
  const close = () => setDialog(undefined);
  const toggle = useWebhookSwitch(webhook);
  const rotate = $api.useMutation("post", "/api/webhooks/{webhook_id}/rotate", {
    onSuccess: ({ token, path: _, ...changed }) => {
      keepToken(changed.id, token);
      keepWebhook(changed);
      close();
    },
  });
  const remove = $api.useMutation("delete", "/api/webhooks/{webhook_id}", {
    onSuccess: () => {
      dropWebhooks();
      void navigate({ to: "/webhooks" });
    },
  });
  return (
    <>
      <label className="flex items-center gap-2 text-sm text-soft">
        {webhook.enabled ? "On" : "Off"}
        <Switch label={`${webhook.name} is on`} on={webhook.enabled} busy={toggle.busy} onChange={toggle.set} />
      </label>
      <IconButton label="Delete" look="plain" onClick={() => setDialog("delete")}>
        <Trash2 size={15} />
      </IconButton>
      <Button icon={<KeyRound size={15} />} onClick={() => setDialog("rotate")}>
        Rotate token
      </Button>
      <Button icon={<Pencil size={15} />} onClick={() => setDialog("edit")}>
        Edit
      </Button>
      {dialog === "edit" && <WebhookDialog webhook={webhook} onClose={close} />}
      {dialog === "rotate" && (
        <Confirm
          title={`Rotate the token of ${webhook.name}`}
          action="Rotate the token"
          busy={rotate.isPending}
          error={rotate.error}
          onConfirm={() => rotate.mutate(oneWebhook(webhook.id))}
          onClose={close}
        >
          <p>It gets a new secret address. The old one stops working within a second: whoever sends to it is refused until they know the new one.</p>
          <p>Runs, prompt and post-actions stay.</p>
        </Confirm>
      )}
      {dialog === "delete" && (
        <Confirm
          title={`Delete ${webhook.name}`}
          action="Delete the webhook"
          danger
          busy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate(oneWebhook(webhook.id))}
          onClose={close}
        >
          <p>Its address stops working, and its history and post-actions are gone.</p>
          <p>Messages and sessions that it has started stay, and go on.</p>
        </Confirm>
      )}
    </>
  );
}

/** How to send to it, for those who have its token. */
function Sending({ webhook }: { webhook: WebhookRead }) {
  const line = hookCurl(JSON.stringify(exampleBody(variablesOf(promptOf(webhook))), null, 2));
  return (
    <Section title="Sending" actions={<CopyButton text={line} label="Copy as curl" />}>
      <div className="grid gap-2">
        <pre tabIndex={0} role="region" aria-label="The call as curl" className="overflow-x-auto rounded-md border border-line bg-sunken p-3 text-xs wrap-anywhere whitespace-pre-wrap">
          {line}
        </pre>
        <p className="text-xs text-faint">
          The token ends in <code>{webhook.token_hint}</code>. It is shown only when it is made; if it is lost, rotate it.
        </p>
      </div>
    </Section>
  );
}

function Facts({ webhook }: { webhook: WebhookRead }) {
  return (
    <Section title="Details">
      <dl className="grid gap-3 text-sm">
        <Fact name="Prompt">
          <span className="line-clamp-8 break-words whitespace-pre-wrap">{promptOf(webhook)}</span>
        </Fact>
        <Fact name="What it takes">
          <Variables template={promptOf(webhook)} short />
        </Fact>
        <Fact name="Most runs at once">{webhook.max_unfinished}</Fact>
        <Fact name="Last sent to">{webhook.used_at ? <Time at={webhook.used_at} /> : "Never"}</Fact>
        <Fact name="Made">
          <Time at={webhook.created_at} /> by {webhook.created_by}
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
