import { Page } from "@/shell/Page";

export function Chat() {
  return <Page title="Chat">{null}</Page>;
}
