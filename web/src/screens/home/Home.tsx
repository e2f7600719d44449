import { Page } from "@/shell/Page";

export function Home() {
  return <Page title="Home">{null}</Page>;
}
