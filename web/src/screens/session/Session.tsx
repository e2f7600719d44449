import { Page } from "@/shell/Page";

export function Session() {
  return <Page title="Session">{null}</Page>;
}
