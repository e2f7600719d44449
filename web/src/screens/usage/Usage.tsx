import { Page } from "@/shell/Page";

export function Usage() {
  return <Page title="Usage">{null}</Page>;
}
