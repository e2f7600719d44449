import { Page } from "@/shell/Page";

export function Schedule() {
  return <Page title="Schedule">{null}</Page>;
}
