import { Page } from "@/shell/Page";

export function Team() {
  return <Page title="Team">{null}</Page>;
}
