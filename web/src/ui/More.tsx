import { Button } from "./Button";

interface Paged {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

/** The rest of a list that comes in pages. */
export function More({ query }: { query: Paged }) {
  if (!query.hasNextPage) return null;
  return (
    <div className="flex justify-center py-3">
      <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
        Show more
      </Button>
    </div>
  );
}
