import { Page } from "@/shell/Page";

export function SignIn() {
  return <Page title="SignIn">{null}</Page>;
}
