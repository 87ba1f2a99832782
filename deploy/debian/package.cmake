# SPDX-License-Identifier: Apache-2.0
# The Debian package, made by `make deb` (tools/deb.sh): the files that cmake --install writes, under /usr, and a
# systemd service with its configuration and user.
set(here ${CMAKE_CURRENT_LIST_DIR})
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/weft.service DESTINATION lib/systemd/system
  COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${here}/weft.sysusers DESTINATION lib/sysusers.d RENAME weft.conf
  COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${here}/config.json DESTINATION /etc/weft COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${here}/copyright DESTINATION share/doc/weft COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${here}/overrides DESTINATION share/lintian/overrides RENAME weft
  COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/weft-cuda.conf DESTINATION share/doc/weft/examples
  COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${CMAKE_BINARY_DIR}/debian/changelog.Debian.gz DESTINATION share/doc/weft
  COMPONENT debian EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "inference server for language models")
set(CPACK_PACKAGE_CONTACT $ENV{WEFT_DEB_MAINTAINER})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_SOURCE_DIR}/build/deb)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};weft;Unspecified;/;${CMAKE_BINARY_DIR};weft;debian;/")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"weft serves chat, completions, embeddings and rerank for several models over
HTTP, in the forms of the interfaces of OpenAI, Anthropic and Cohere. It runs
on CPUs and, with its plugin, on NVIDIA GPUs.")
set(CPACK_DEBIAN_PACKAGE_DEPENDS $ENV{WEFT_DEB_DEPENDS})
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  "${here}/conffiles;${here}/postinst;${here}/prerm;${here}/postrm")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
include(CPack)
