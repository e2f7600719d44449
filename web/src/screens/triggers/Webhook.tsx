import { Page } from "@/shell/Page";

export function Webhook() {
  return <Page title="Webhook">{null}</Page>;
}
