import { Page } from "@/shell/Page";

export function Settings() {
  return <Page title="Settings">{null}</Page>;
}
