import { Page } from "@/shell/Page";

export function NewSession() {
  return <Page title="NewSession">{null}</Page>;
}
