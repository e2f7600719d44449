import { Page } from "@/shell/Page";

export function Register() {
  return <Page title="Register">{null}</Page>;
}
