import { Page } from "@/shell/Page";

export function NeedsYou() {
  return <Page title="NeedsYou">{null}</Page>;
}
