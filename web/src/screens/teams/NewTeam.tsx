import { Page } from "@/shell/Page";

export function NewTeam() {
  return <Page title="NewTeam">{null}</Page>;
}
