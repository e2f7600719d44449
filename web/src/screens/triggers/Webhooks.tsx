import { Page } from "@/shell/Page";

export function Webhooks() {
  return <Page title="Webhooks">{null}</Page>;
}
