import { Page } from "@/shell/Page";

export function Sessions() {
  return <Page title="Sessions">{null}</Page>;
}
