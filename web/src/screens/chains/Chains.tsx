import { Page } from "@/shell/Page";

export function Chains() {
  return <Page title="Chains">{null}</Page>;
}
