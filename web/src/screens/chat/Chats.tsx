import { Page } from "@/shell/Page";

export function Chats() {
  return <Page title="Chats">{null}</Page>;
}
