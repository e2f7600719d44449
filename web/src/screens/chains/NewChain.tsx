import { Page } from "@/shell/Page";

export function NewChain() {
  return <Page title="NewChain">{null}</Page>;
}
