import { Page } from "@/shell/Page";

export function Chain() {
  return <Page title="Chain">{null}</Page>;
}
