import { Page } from "@/shell/Page";

export function Teams() {
  return <Page title="Teams">{null}</Page>;
}
