import { Page } from "@/shell/Page";

export function Welcome() {
  return <Page title="Welcome">{null}</Page>;
}
