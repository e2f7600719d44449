import { Page } from "@/shell/Page";

export function Schedules() {
  return <Page title="Schedules">{null}</Page>;
}
