import { Page } from "@/shell/Page";

export function Join() {
  return <Page title="Join">{null}</Page>;
}
