import "@/styles/app.css";

import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { queryClient } from "@/api/queries";
import { router } from "@/router";

// After an update the old page asks for files that are gone: once is enough to get the new one.
addEventListener("vite:preloadError", () => {
  if (sessionStorage.getItem("agentos.reloaded") === "yes") return;
  sessionStorage.setItem("agentos.reloaded", "yes");
  location.reload();
});

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
